"""What a key, user or team has used of its limits by now: for people and programs that look, not for
those that decide (`accounts.limits.desk`), who lock the counter first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from accounts.contracts import BudgetPeriod, Limits
from accounts.limits.contracts import LimitKind, LimitScope
from accounts.limits.counter import BUDGET_KINDS, BudgetUse, Counter, Owner
from accounts.limits.minute_window import MinuteWindow
from accounts.limits.periods import seconds_left
from accounts.models import LimitCounter

_PERIODS = {kind: period for period, kind in BUDGET_KINDS.items()}


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


@dataclass(frozen=True, slots=True)
class UsedLimit:
    """`used` of `most` of one kind; a budget begins anew at `anew_at` (UTC, whole seconds)."""

    kind: LimitKind
    used: int
    most: int
    anew_at: datetime | None = None


def limit_use_get(*, scope: LimitScope, owner_id: int, now: float) -> LimitUse | None:
    """At `now` (Unix seconds). None where nothing is counted, since nothing was ever limited."""
    return limit_uses_get(scope=scope, owner_ids=[owner_id], now=now).get(owner_id)


def limit_uses_get(*, scope: LimitScope, owner_ids: Collection[int], now: float) -> dict[int, LimitUse]:
    """The same of many, with one question; who is not in it is not counted."""
    rows = LimitCounter.objects.filter(scope=scope.value, owner_id__in=owner_ids)
    return {row.owner_id: _use(row, scope, now) for row in rows}


def used_limits(limits: Limits, use: LimitUse | None, now: float) -> tuple[UsedLimit, ...]:
    """What is used of each of these limits that counts something, in the order of the kinds."""
    return tuple(
        UsedLimit(kind, 0 if use is None else getattr(use, kind.value), most, _anew_at(kind, now))
        for kind in LimitKind
        if (most := getattr(limits, f"max_{kind.value}")) is not None
    )


def _anew_at(kind: LimitKind, now: float) -> datetime | None:
    period = _PERIODS.get(kind)
    return None if period is None else datetime.fromtimestamp(round(now + seconds_left(period, now)), UTC)


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
