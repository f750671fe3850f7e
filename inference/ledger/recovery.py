"""At start: the journals of processes that are gone become records.

What they had ended is recorded as it was, in order; what they had not ended becomes INTERRUPTED with its
last progress. Budgets need nothing more: they are counted where records are taken in. A journal is removed
when all of that is done, so a recovery that is itself interrupted is simply done again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from inference.ledger.insertion import insert_all
from inference.ledger.journal import DeadJournal, dead_journals
from inference.ledger.quarantine import Quarantine
from inference.ledger.replay import Unfinished, unfinished
from inference.ledger.rows import RecordRow
from inference.ledger.store import RecordStore, StoreUnavailable
from inference.ledger.writer import FIRST_RETRY_S, MAX_RETRY_S, MAX_ROWS_OF_COMMIT

_log = logging.getLogger(__name__)


class Recovery:
    """Runs once, as long as it takes for the database to be there."""

    def __init__(self, folder: Path, store: RecordStore, *, quarantine: Quarantine) -> None:
        self._folder = folder
        self._store = store
        self._quarantine = quarantine
        self.total_recovered = 0
        self.total_damaged_lines = 0

    async def run(self) -> None:
        try:
            for journal in dead_journals(self._folder):
                await self._recover(journal)
        finally:
            await self._store.close()

    async def _recover(self, journal: DeadJournal) -> None:
        is_done = False
        try:
            todo = await asyncio.to_thread(lambda: unfinished(journal.lines()))
            self.total_damaged_lines += todo.num_damaged_lines
            await self._record(todo)
            is_done = True
            _log.warning(
                "journal %s: %d records and %d interrupted requests recovered, %d damaged lines",
                journal.path.name,
                len(todo.ended),
                len(todo.interrupted),
                todo.num_damaged_lines,
            )
        except OSError as error:
            _log.error("journal %s cannot be read: %s", journal.path.name, error.strerror)
        finally:
            journal.release(is_done=is_done)

    async def _record(self, todo: Unfinished) -> None:
        rows = todo.rows
        for start in range(0, len(rows), MAX_ROWS_OF_COMMIT):
            await self._record_some(rows[start : start + MAX_ROWS_OF_COMMIT])

    async def _record_some(self, rows: Sequence[RecordRow]) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            try:
                await insert_all(self._store, rows, self._quarantine)
            except StoreUnavailable as problem:
                _log.warning("journals wait for the database (%s)", problem)
            else:
                self.total_recovered += len(rows)
                return
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, MAX_RETRY_S)
