"""What a key, user or team has used of its limits by now: for people and programs that look, not for
those that decide (`accounts.limits.desk`), who lock the counter first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from accounts.contracts import BudgetPeriod
from accounts.limits.contracts import LimitScope
from accounts.limits.counter import BudgetUse, Counter, Owner
from accounts.limits.minute_window import MinuteWindow
from accounts.models import LimitCounter


@dataclass(frozen=True, slots=True)
class LimitUse:
    """Requests and tokens of the last minute, requests that are open, and the tokens of the current day,
    week and month in UTC. What open requests have reserved counts in the minute alone."""

    requests_per_minute: int
    tokens_per_minute: int
    parallel_requests: int
    tokens_per_day: int
    tokens_per_week: int
    tokens_per_month: int


def limit_use_get(*, scope: LimitScope, owner_id: int, now: float) -> LimitUse | None:
    """At `now` (Unix seconds). None where nothing is counted, since nothing was ever limited."""
    return limit_uses_get(scope=scope, owner_ids=[owner_id], now=now).get(owner_id)


def limit_uses_get(*, scope: LimitScope, owner_ids: Collection[int], now: float) -> dict[int, LimitUse]:
    """The same of many, with one question; who is not in it is not counted."""
    rows = LimitCounter.objects.filter(scope=scope.value, owner_id__in=owner_ids)
    return {row.owner_id: _use(row, scope, now) for row in rows}


def _use(row: LimitCounter, scope: LimitScope, now: float) -> LimitUse:
    counter = Counter(
        Owner(scope, row.owner_id),
        MinuteWindow.from_numbers(row.window),
        row.num_open,
        used={
            BudgetPeriod.DAY: BudgetUse(row.day_start, row.day_tokens),
            BudgetPeriod.WEEK: BudgetUse(row.week_start, row.week_tokens),
            BudgetPeriod.MONTH: BudgetUse(row.month_start, row.month_tokens),
        },
    )
    counter.move_to(now)
    return LimitUse(
        counter.window.num_requests,
        counter.window.num_tokens,
        counter.num_open,
        *(counter.used[period].num_tokens for period in BudgetPeriod),
    )
