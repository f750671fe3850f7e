"""A ledger in memory, for tests of what stands before it."""

from __future__ import annotations

import asyncio
from uuid import UUID

from inference.domain.errors import ServiceUnavailable
from inference.domain.ledger import LedgerStatistics, LiveRequest
from inference.domain.outcomes import RequestSummary


class MemoryLedger:
    """Implements domain.ledger.Ledger. With `is_quick` false, records are safe once a test says so."""

    def __init__(self) -> None:
        self.opened: list[RequestSummary] = []
        self.live: dict[UUID, LiveRequest] = {}
        self.noted: list[RequestSummary] = []
        self.records: list[RequestSummary] = []
        self.fault: str | None = None
        self.is_quick = True
        self.num_hurries = 0
        self._unsafe: list[asyncio.Future[None]] = []

    def open(self, live: LiveRequest) -> None:
        if self.fault is not None:
            raise ServiceUnavailable(f"No records: {self.fault}.")
        self.opened.append(live.summary_now())
        self.live[live.record_id] = live

    def note(self, live: LiveRequest) -> None:
        self.noted.append(live.summary_now())

    def record(self, summary: RequestSummary) -> asyncio.Future[None]:
        self.records.append(summary)
        self.live.pop(summary.record_id, None)
        safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsafe.append(safe)
        if self.is_quick:
            self.make_safe()
        return safe

    def hurry(self) -> None:
        self.num_hurries += 1

    def make_safe(self) -> None:
        while self._unsafe:
            self._unsafe.pop().set_result(None)

    def statistics(self) -> LedgerStatistics:
        return LedgerStatistics(num_live=len(self.opened) - len(self.records))
