"""One record for each request, whatever dies: journal, group commit and recovery put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from inference.domain.clock import Clock
from inference.domain.errors import ServiceUnavailable
from inference.domain.ledger import LedgerStatistics, LiveRequest
from inference.domain.outcomes import RequestSummary
from inference.ledger.entries import Closed, Entry, Opened, Progressed, encode
from inference.ledger.journal import Disk, JournalFile
from inference.ledger.quarantine import Quarantine
from inference.ledger.recovery import Recovery
from inference.ledger.rows import Progress, RecordRow
from inference.ledger.store import RecordStore
from inference.ledger.writer import RecordWriter

_log = logging.getLogger(__name__)

PROGRESS_EVERY_S = 1.0
MAX_JOURNAL_BYTES = 32 * 1024 * 1024
# What is left for the endings of running requests when newcomers are refused.
MIN_FREE_BYTES = 16 * 1024 * 1024
STOP_PATIENCE_S = 8.0
RETRY_AFTER_S = 30


class GenerationLedger:
    """Implements domain.ledger.Ledger. `start()` it on the event loop, `stop()` it last of all.

    `make_store` makes a connection's worth of store: one for the writer, one for the recovery.
    """

    def __init__(
        self,
        folder: Path,
        *,
        make_store: Callable[[], RecordStore],
        clock: Clock,
        disk: Disk | None = None,
        max_journal_bytes: int = MAX_JOURNAL_BYTES,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._disk = disk
        self._max_journal_bytes = max_journal_bytes
        self._quarantine = Quarantine(folder)
        self._writer = RecordWriter(make_store(), journal=lambda: self._file, quarantine=self._quarantine)
        self._recovery = Recovery(folder, make_store(), quarantine=self._quarantine)
        self._live: dict[UUID, LiveRequest] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: str | None = "not started"
        self._current: JournalFile | None = None

    @property
    def _file(self) -> JournalFile:
        assert self._current is not None
        return self._current

    def __repr__(self) -> str:
        return f"<GenerationLedger {len(self._live)} live, {self._writer!r}, fault {self._fault}>"

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the journal, and begin to recover those of dead processes. Raises OSError where no
        journal can be written at all."""
        self._current = JournalFile(self._folder, unix_time=self._clock.unix_time(), disk=self._disk)
        self._fault = None
        self._tasks = [asyncio.create_task(self._keep_ticking()), asyncio.create_task(self._recovery.run())]

    async def stop(self) -> None:
        """Make safe what has ended. What has not is found by the next start."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._current is None:
            return
        await self._writer.stop(patience_s=STOP_PATIENCE_S)
        self.tick()
        self._current.close(is_done=self._writer.is_idle and not self._live)
        self._current = None
        self._fault = "stopped"

    async def _keep_ticking(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            try:
                self.tick()
            except Exception:
                _log.exception("the journal's housekeeping failed")

    def tick(self) -> None:
        """Once a second: progress of what runs, what is in the database by now, room on the disk."""
        entries: list[Entry] = []
        closed = self._writer.take_closed()
        if closed:
            entries.append(Closed(tuple(closed)))
        running = [live for live in self._live.values() if live.is_running]
        if running or self._fault:
            entries.append(Progressed(tuple(Progress.of(live.summary_now()) for live in running)))
        if entries:
            self._append(*entries)
        if self._fault is None and self._file.free_bytes() < MIN_FREE_BYTES:
            self._set_fault("the disk is nearly full")
        if self._file.num_bytes > self._max_journal_bytes and self._writer.is_idle:
            self._begin_new_file()

    def _begin_new_file(self) -> None:
        """All that the old file still says of is in the database or runs; the new one has the latter."""
        try:
            fresh = JournalFile(self._folder, unix_time=self._clock.unix_time(), disk=self._disk)
        except OSError as error:
            self._set_fault(_reason(error))
            return
        try:
            for live in self._live.values():
                fresh.append(encode(_opened(live)))
        except OSError as error:
            self._set_fault(_reason(error))
            fresh.close(is_done=True)
            return
        old, self._current = self._file, fresh
        old.close(is_done=True)

    # -- requests ---------------------------------------------------------------------------------

    @property
    def fault(self) -> str | None:
        return self._fault

    def open(self, live: LiveRequest) -> None:
        if self._fault is None:
            self._append(_opened(live))
        if self._fault is not None:
            raise ServiceUnavailable(
                f"The service takes no new requests, since it could not record them: {self._fault}.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._live[live.record_id] = live

    def note(self, live: LiveRequest) -> None:
        self._append(_opened(live))

    def record(self, summary: RequestSummary) -> asyncio.Future[None]:
        self._live.pop(summary.record_id, None)
        return self._writer.submit(RecordRow.of(summary))

    def hurry(self) -> None:
        self._writer.hurry()

    def live(self) -> list[LiveRequest]:
        """The requests that have not ended, in the order of their arrival."""
        return list(self._live.values())

    def statistics(self) -> LedgerStatistics:
        writer = self._writer
        return LedgerStatistics(
            num_live=len(self._live),
            num_waiting=writer.num_waiting,
            num_backlog=writer.num_backlog,
            journal_bytes=self._current.num_bytes if self._current else 0,
            fault=self._fault,
            total_committed=writer.total_committed,
            total_commits=writer.total_commits,
            total_journalled=writer.total_journalled,
            total_quarantined=self._quarantine.total_kept,
            total_recovered=self._recovery.total_recovered,
            total_damaged_lines=self._recovery.total_damaged_lines,
        )

    def _append(self, *entries: Entry) -> None:
        """Write to the journal, and know from it whether newcomers can be accounted for."""
        try:
            self._file.append(b"".join([encode(entry) for entry in entries]))
        except OSError as error:
            self._set_fault(_reason(error))
        else:
            if self._fault is not None and self._file.free_bytes() >= MIN_FREE_BYTES:
                _log.warning("the journal can be written again")
                self._fault = None

    def _set_fault(self, reason: str) -> None:
        if self._fault is None:
            _log.critical("the journal cannot be written, new requests are refused: %s", reason)
        self._fault = reason


def _opened(live: LiveRequest) -> Opened:
    return Opened(RecordRow.of(live.summary_now()))


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
