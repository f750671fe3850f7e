"""What limits say to one request more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from accounts.contracts import BudgetPeriod, Limits
from accounts.limits.contracts import LimitKind, LimitScope
from accounts.limits.counter import BudgetUse, Counter, Owner
from accounts.limits.periods import instant_of, period_start, seconds_left

NOW = datetime(2026, 3, 31, 23, 59, 50, tzinfo=UTC).timestamp()


def counter(now: float = NOW) -> Counter:
    made = Counter(Owner(LimitScope.KEY, 1))
    made.move_to(now)
    return made


@pytest.mark.parametrize(
    ("period", "start", "left_s"),
    [
        (BudgetPeriod.DAY, "2026-03-31", 10),
        (BudgetPeriod.WEEK, "2026-03-30", 10 + 5 * 86_400),
        (BudgetPeriod.MONTH, "2026-03-01", 10),
    ],
)
def test_periods_are_the_calendar_s(period: BudgetPeriod, start: str, left_s: float) -> None:
    assert str(period_start(period, NOW)) == start
    assert seconds_left(period, NOW) == left_s
    assert instant_of(period_start(period, NOW + left_s)) == NOW + left_s


def test_february_and_december_end_where_they_do() -> None:
    leap = datetime(2028, 2, 29, 12, tzinfo=UTC).timestamp()
    assert seconds_left(BudgetPeriod.MONTH, leap) == 43_200
    december = datetime(2026, 12, 31, 23, tzinfo=UTC).timestamp()
    assert seconds_left(BudgetPeriod.MONTH, december) == 3600


@pytest.mark.parametrize(
    ("limits", "kind", "wait_s"),
    [
        (Limits(max_requests_per_minute=2), LimitKind.REQUESTS_PER_MINUTE, 61.0),
        (Limits(max_tokens_per_minute=200), LimitKind.TOKENS_PER_MINUTE, 61.0),
        (Limits(max_parallel_requests=2), LimitKind.PARALLEL_REQUESTS, 1.0),
        (Limits(max_tokens_per_day=200), LimitKind.TOKENS_PER_DAY, 10.0),
        (Limits(max_tokens_per_month=200), LimitKind.TOKENS_PER_MONTH, 10.0),
        (Limits(max_parallel_requests=2, max_tokens_per_week=200), LimitKind.TOKENS_PER_WEEK, 432_010.0),
    ],
)
def test_two_of_95_tokens_fill_it_and_the_longest_wait_is_told(limits, kind, wait_s) -> None:
    one = counter()
    for _ in range(2):
        assert one.refusal(limits, NOW, num_tokens=95) is None
        one.take(NOW, num_tokens=95)
    refusal = one.refusal(limits, NOW, num_tokens=95)
    assert refusal is not None and (refusal.kind, refusal.wait_s) == (kind, wait_s)
    assert refusal.scope is LimitScope.KEY
    one.check_integrity()


def test_a_refund_leaves_nothing_behind_and_a_settlement_what_was_used() -> None:
    one = counter()
    slot = one.take(NOW, num_tokens=100)
    one.refund(slot=slot, num_reserved=100)
    assert (one.num_open, one.num_reserved_tokens, one.window.num_requests, one.window.num_tokens) == (0,) * 4
    slot = one.take(NOW, num_tokens=100)
    one.settle(NOW + 5, slot=slot, num_reserved=100, num_tokens=30)
    assert (one.num_open, one.window.num_requests, one.window.num_tokens) == (0, 1, 30)
    slot = one.take(NOW + 5, num_tokens=100)
    one.settle(NOW + 50, slot=slot, num_reserved=100, num_tokens=700)
    one.move_to(NOW + 70)
    assert one.window.num_tokens == 600, "what was more than estimated counts when it is known"


def test_a_request_larger_than_a_whole_limit_goes_over_the_line_alone() -> None:
    limits = Limits(max_tokens_per_minute=200, max_tokens_per_day=200)
    one = counter()
    assert one.refusal(limits, NOW, num_tokens=5000) is None
    one.take(NOW, num_tokens=1)
    assert one.refusal(limits, NOW, num_tokens=5000) is not None


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_requests_per_minute=0),
        Limits(max_tokens_per_minute=0),
        Limits(max_parallel_requests=0),
        Limits(max_tokens_per_day=0),
    ],
)
def test_nought_lets_nothing_through(limits: Limits) -> None:
    assert counter().refusal(limits, NOW, num_tokens=1) is not None


def test_a_budget_begins_anew_with_its_period_and_keeps_what_is_reserved() -> None:
    limits = Limits(max_tokens_per_day=100)
    one = counter()
    one.used[BudgetPeriod.DAY] = BudgetUse(period_start(BudgetPeriod.DAY, NOW), 100)
    assert one.refusal(limits, NOW, num_tokens=1) is not None
    one.take(NOW, num_tokens=60)
    one.move_to(NOW + 10)
    assert one.refusal(limits, NOW + 10, num_tokens=40) is None
    assert one.refusal(limits, NOW + 10, num_tokens=41) is not None
