"""Usage for the event loop: the selectors on threads, and a database that is away as a 503."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from django.db import Error as DatabaseFailure

from inference.domain.errors import ServiceUnavailable
from inference.domain.usage import LatencyReport, UsageRange, UsageReport
from inference.usage.selectors import UsageOwner, records_paged, usage_latencies, usage_report

ROWS_A_PAGE = 500
"""Some hundred kilobytes of CSV: what a slow reader can take within the time for one message."""

T = TypeVar("T")


class DatabaseUsageDesk:
    """Implements inference.api.usage.UsageDesk. Takes a connection for each query and gives it back."""

    async def report(self, owner: UsageOwner, range: UsageRange) -> tuple[UsageReport, LatencyReport]:
        return await _on_thread(
            lambda: (usage_report(owner=owner, range=range), usage_latencies(owner=owner, range=range))
        )

    async def pages(
        self, owner: UsageOwner, range: UsageRange, columns: Sequence[str]
    ) -> AsyncIterator[list[tuple[Any, ...]]]:
        pages = records_paged(owner=owner, range=range, columns=columns, page_size=ROWS_A_PAGE)
        while (page := await _on_thread(lambda: _following(pages))) is not None:
            yield page


def _following(pages: Iterator[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]] | None:
    # StopIteration cannot pass through a future.
    return next(pages, None)


async def _on_thread(work: Callable[[], T]) -> T:
    try:
        result: T = await database_sync_to_async(work, thread_sensitive=False)()
    except DatabaseFailure:
        raise ServiceUnavailable("Usage cannot be read right now. Please retry shortly.") from None
    return result
