"""Usage that a test has made up, in place of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.domain.usage import LatencyReport, UsageRange, UsageReport, UsageTotals
from inference.usage.selectors import UsageOwner


@dataclass
class ScriptedUsageDesk:
    """Implements UsageDesk. `failure` is raised instead, by `pages` behind those there are."""

    totals: UsageTotals = field(default_factory=UsageTotals)
    rows: list[list[tuple[Any, ...]]] = field(default_factory=list)
    failure: Exception | None = None
    asked: list[tuple[UsageOwner, UsageRange]] = field(default_factory=list)

    async def report(self, owner: UsageOwner, range: UsageRange) -> tuple[UsageReport, LatencyReport]:
        self.asked.append((owner, range))
        if self.failure is not None:
            raise self.failure
        report = UsageReport(range, self.totals, by_outcome=(("completed", self.totals),))
        return report, LatencyReport()

    async def pages(
        self, owner: UsageOwner, range: UsageRange, columns: Sequence[str]
    ) -> AsyncIterator[list[tuple[Any, ...]]]:
        self.asked.append((owner, range))
        for page in self.rows:
            yield page
        if self.failure is not None:
            raise self.failure
