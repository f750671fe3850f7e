"""What a key, user or team has used of its limits by now: for people and programs that look, not for
those that decide (`accounts.limits.desk`), who lock the counter first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from accounts.contracts import BudgetPeriod, Limits
from accounts.limits.contracts import LimitScope
from accounts.limits.counter import BUDGET_KINDS, BudgetUse, Counter, Owner
from accounts.limits.minute_window import MinuteWindow
from accounts.limits.periods import seconds_left
from accounts.models import LimitCounter

_PERIODS = {kind.value: period for period, kind in BUDGET_KINDS.items()}


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
class LimitLine:
    """`used` of `most`, both in the unit of `label`; a budget begins anew at `anew_at` (UTC)."""

    label: str
    used: int
    most: int
    anew_at: datetime | None


def limit_use_get(*, scope: LimitScope, owner_id: int, now: float) -> LimitUse | None:
    """At `now` (Unix seconds). None where nothing is counted, since nothing was ever limited."""
    return limit_uses_get(scope=scope, owner_ids=[owner_id], now=now).get(owner_id)


def limit_uses_get(*, scope: LimitScope, owner_ids: Collection[int], now: float) -> dict[int, LimitUse]:
    """The same of many, with one question; who is not in it is not counted."""
    rows = LimitCounter.objects.filter(scope=scope.value, owner_id__in=owner_ids)
    return {row.owner_id: _use(row, scope, now) for row in rows}


def limit_lines(
    limits: Limits, used: LimitUse | None, *, labels: Mapping[str, str], now: float
) -> tuple[LimitLine, ...]:
    """Of each limit that is set, how much of it is used; `labels` by the fields of LimitUse."""
    return tuple(
        LimitLine(label, 0 if used is None else getattr(used, name), most, _anew_at(name, now))
        for name, label in labels.items()
        if (most := getattr(limits, f"max_{name}")) is not None
    )


def limit_lines_get(
    *, scope: LimitScope, owner_id: int, limits: Limits, labels: Mapping[str, str], now: float
) -> tuple[LimitLine, ...]:
    """The same of one owner. Where nothing is limited nothing is asked."""
    if not limits.has_counts:
        return ()
    used = limit_use_get(scope=scope, owner_id=owner_id, now=now)
    return limit_lines(limits, used, labels=labels, now=now)


def _anew_at(name: str, now: float) -> datetime | None:
    period = _PERIODS.get(name)
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
