"""What the rest of the service knows of the ledger, where one record of each request is kept for good."""

from __future__ import annotations

from asyncio import Future
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from inference.domain.errors import SkippyError
from inference.domain.outcomes import RequestSummary


class LiveRequest(Protocol):
    """A request that has not ended, as the ledger sees it."""

    @property
    def record_id(self) -> UUID: ...

    @property
    def is_running(self) -> bool:
        """It has a lane; until then nothing about it changes."""
        ...

    def summary_now(self) -> RequestSummary:
        """Its record if the process were to end now."""
        ...

    def interrupt(self, error: SkippyError) -> bool:
        """End it with `error`, which its client is told; False where it is ending already."""
        ...


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """`num_live` requests have not ended, `num_waiting` records are on their way to the database, and
    `num_backlog` are in the journal until it is back. `fault` says why newcomers are refused."""

    num_live: int = 0
    num_waiting: int = 0
    num_backlog: int = 0
    journal_bytes: int = 0
    fault: str | None = None
    total_committed: int = 0
    total_commits: int = 0
    total_journalled: int = 0
    total_quarantined: int = 0
    total_recovered: int = 0
    total_damaged_lines: int = 0


class Ledger(Protocol):
    """One record for each request that was opened, also where this process is killed. Event loop only;
    nothing here waits for a database but what `record` gives."""

    @property
    def fault(self) -> str | None:
        """Why no newcomer can be accounted for; None where all is well."""
        ...

    def open(self, live: LiveRequest) -> None:
        """A request that passed authentication. From now on its progress is noted once a second, and
        should this process die, it becomes a record INTERRUPTED. Raises ServiceUnavailable where it
        could not be accounted for; then it was not opened."""
        ...

    def note(self, live: LiveRequest) -> None:
        """More is known of an open request than its progress. Never raises."""
        ...

    def record(self, summary: RequestSummary) -> Future[None]:
        """The end of an open request. What is returned is done when the record will survive whatever
        happens; it never fails. Nobody needs to wait for it, and it takes a moment, in which others may come
        along; who waits calls `hurry`, and shields it where he may be cancelled."""
        ...

    def hurry(self) -> None:
        """Somebody waits for what was given to `record`: make it safe at once."""
        ...

    def statistics(self) -> LedgerStatistics: ...
