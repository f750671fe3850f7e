"""GET /v1/usage: what the key that asks has used itself, as a report or as CSV."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from accounts.contracts import Principal
from accounts.scopes import Scope
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from inference.domain.usage import LatencyReport, UsageRange, UsageReport
from inference.openai.usage_query import UsageFormat, parse_usage_query
from inference.openai.usage_report import CSV_COLUMNS, csv_header, csv_lines, usage_report_body
from inference.usage.selectors import UsageOwner

CONNECTION_EXTENSION = "skippy.connection"
_NO_STORE = (b"cache-control", b"no-store")


class UsageDesk(Protocol):
    """Reads usage without holding up the event loop. Both raise ServiceUnavailable where the database
    cannot be asked."""

    async def report(self, owner: UsageOwner, range: UsageRange) -> tuple[UsageReport, LatencyReport]: ...

    def pages(
        self, owner: UsageOwner, range: UsageRange, columns: Sequence[str]
    ) -> AsyncIterator[list[tuple[Any, ...]]]:
        """The records, oldest first, some hundred at a time."""
        ...


class UsageConsumer(ApiConsumer):
    """A key's own numbers, of everything since it was made unless a time is given."""

    needs_scope = Scope.USAGE

    def __init__(self, *, desk: UsageDesk, stall_limit_s: float, **rest: Any) -> None:
        """`stall_limit_s` is how long a reader of CSV may leave a page unread."""
        super().__init__(**rest)
        self._desk = desk
        self._stall_limit_s = stall_limit_s

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        now = datetime.now(UTC)
        query = parse_usage_query(request.query, now=now)
        owner = UsageOwner(key_id=principal.key_id)
        if query.format is UsageFormat.JSON:
            report, latencies = await self._desk.report(owner, query.range)
            await self.respond.json(usage_report_body(report, latencies), headers=(_NO_STORE,))
            return
        # Bounded, or a key in use could be read for ever.
        bounded = replace(query.range, end_at=query.range.end_at or now)
        pages = self._desk.pages(owner, bounded, [field for _, field in CSV_COLUMNS])
        # The first page before the status: what fails now is still an error object.
        first: list[tuple[Any, ...]] = await anext(pages, [])
        await self._csv(request, first, pages)

    async def _csv(
        self,
        request: HttpRequest,
        first: list[tuple[Any, ...]],
        pages: AsyncIterator[list[tuple[Any, ...]]],
    ) -> None:
        await self.respond.begin_download(
            headers=(
                (b"content-type", b"text/csv; charset=utf-8"),
                (b"content-disposition", b'attachment; filename="usage.csv"'),
                _NO_STORE,
            )
        )
        try:
            await self._send(csv_header() + csv_lines(first))
            if request.method != "HEAD":
                async for page in pages:
                    await self._send(csv_lines(page))
            await self.respond.end_download()
        except Exception:
            # A file that ends in good order must not lack anything: this one breaks off.
            self.respond.is_ended = True
            connection = self.scope.get("extensions", {}).get(CONNECTION_EXTENSION)
            if connection is not None:
                connection.abort()
            raise

    async def _send(self, part: bytes) -> None:
        async with asyncio.timeout(self._stall_limit_s):
            await self.respond.frame(part)
