"""Group commit: endings go to the database together, and to the journal while it is away.

Where somebody waits for a record, a commit starts at once if none is in flight, and takes along whatever
came meanwhile: one client waits for one commit only, and a hundred clients share few. A record that
nobody waits for (of a refusal, of a client that left) goes along with the next commit, or starts one
itself after a moment: a server that has more to do than it can should not spend its time on commits.

While the database is away, endings
are appended to the journal and synced instead; a task brings them to the database in their order when
it is back, and until it has, newcomers take the same way behind them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from inference.ledger.entries import Ended, decode, encode
from inference.ledger.insertion import insert_all
from inference.ledger.journal import Extent, JournalFile
from inference.ledger.quarantine import Quarantine
from inference.ledger.rows import RecordRow
from inference.ledger.store import RecordStore, StoreUnavailable

_log = logging.getLogger(__name__)

MAX_ROWS_OF_COMMIT = 256
# Far less than the second within which a request is to be seen in its user's numbers.
LINGER_S = 0.2
FIRST_RETRY_S = 0.1
MAX_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    row: RecordRow
    safe: asyncio.Future[None]


class RecordWriter:
    """Event loop only. `journal` gives the file to write to, which may change while nothing is in it
    that is still needed (`is_idle`)."""

    def __init__(
        self,
        store: RecordStore,
        *,
        journal: Callable[[], JournalFile],
        quarantine: Quarantine,
        linger_s: float = LINGER_S,
    ) -> None:
        self._store = store
        self._linger_s = linger_s
        self._journal = journal
        self._quarantine = quarantine
        self._waiting: deque[_Waiting] = deque()
        self._num_in_flight = 0
        self._backlog: deque[Extent] = deque()
        self._closed: list[UUID] = []
        self._lingering: asyncio.TimerHandle | None = None
        self._is_hurried = False
        self._working: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self.total_committed = 0
        self.total_commits = 0
        self.total_journalled = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting) + self._num_in_flight

    @property
    def num_backlog(self) -> int:
        return len(self._backlog)

    @property
    def is_idle(self) -> bool:
        """All that was submitted is in the database."""
        return not self.num_waiting and not self._backlog

    def __repr__(self) -> str:
        return f"<RecordWriter {self.num_waiting} waiting, {self.num_backlog} in the journal>"

    def submit(self, row: RecordRow) -> asyncio.Future[None]:
        """What is returned is done when the row is safe. It never fails; cancelling it changes nothing."""
        loop = asyncio.get_running_loop()
        safe: asyncio.Future[None] = loop.create_future()
        self._waiting.append(_Waiting(row, safe))
        if self._lingering is None:
            self._lingering = loop.call_later(self._linger_s, self.hurry)
        return safe

    def hurry(self) -> None:
        """Begin with all that waits, or go on with it as soon as what is in flight has arrived."""
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if not self._waiting:
            return
        self._is_hurried = True
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    def take_closed(self) -> list[UUID]:
        """The ids that came to the database since the last call."""
        taken, self._closed = self._closed, []
        return taken

    async def stop(self, *, patience_s: float) -> None:
        """Wait for what is under way, but not for a database that is away."""
        self.hurry()
        if self._working is not None:
            await asyncio.wait([self._working], timeout=patience_s)
        for task in (self._working, self._draining):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        await self._store.close()

    async def _work(self) -> None:
        while self._waiting and self._is_hurried:
            self._is_hurried = len(self._waiting) > MAX_ROWS_OF_COMMIT
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_ROWS_OF_COMMIT))]
            self._num_in_flight = len(batch)
            await self._make_safe([waiting.row for waiting in batch])
            self._num_in_flight = 0
            for waiting in batch:
                if not waiting.safe.done():
                    waiting.safe.set_result(None)

    async def _make_safe(self, rows: Sequence[RecordRow]) -> None:
        """In the database or in the journal, and nowhere else: where both fail, try again."""
        retry_s = FIRST_RETRY_S
        while not (await self._commit(rows) or await self._put_aside(rows)):
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, MAX_RETRY_S)

    async def _commit(self, rows: Sequence[RecordRow]) -> bool:
        if self._backlog:
            return False
        try:
            await insert_all(self._store, rows, self._quarantine)
        except StoreUnavailable as problem:
            _log.warning("the database does not take records (%s): they go to the journal", problem)
            return False
        self._note_committed(rows)
        return True

    def _note_committed(self, rows: Sequence[RecordRow]) -> None:
        self.total_commits += 1
        self.total_committed += len(rows)
        self._closed.extend(row.record_id for row in rows)

    async def _put_aside(self, rows: Sequence[RecordRow]) -> bool:
        journal = self._journal()
        try:
            extents = [journal.append(encode(Ended(row))) for row in rows]
            await asyncio.to_thread(journal.sync)
        except OSError as error:
            _log.critical("neither database nor journal take records (%s)", error.strerror)
            return False
        self.total_journalled += len(rows)
        self._backlog.extend(extents)
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain())
        return True

    async def _drain(self) -> None:
        retry_s = FIRST_RETRY_S
        while self._backlog:
            extents = list(islice(self._backlog, MAX_ROWS_OF_COMMIT))
            rows = [self._read(extent) for extent in extents]
            try:
                await insert_all(self._store, rows, self._quarantine)
            except StoreUnavailable:
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, MAX_RETRY_S)
                continue
            retry_s = FIRST_RETRY_S
            for _ in extents:
                self._backlog.popleft()
            self._note_committed(rows)
        _log.warning("the database takes records again, and has those of the journal")

    def _read(self, extent: Extent) -> RecordRow:
        entry = decode(self._journal().read(extent))
        assert isinstance(entry, Ended)
        return entry.row
