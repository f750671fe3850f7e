"""What one key, user or team has used and reserved, and what its limits say to one request more.

Plain state and rules: no clock, no database, no waiting. Tokens of a request count in the second in
which it was let in, as many as were estimated until it is known how many it took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from accounts.contracts import BudgetPeriod, Limits
from accounts.limits.contracts import LimitKind, LimitScope, Quota, Refusal
from accounts.limits.minute_window import MinuteWindow
from accounts.limits.periods import period_start, seconds_left

# Nobody knows when a running request ends; a short one does within this.
PARALLEL_WAIT_S = 1.0
BUDGET_KINDS = {
    BudgetPeriod.DAY: LimitKind.TOKENS_PER_DAY,
    BudgetPeriod.WEEK: LimitKind.TOKENS_PER_WEEK,
    BudgetPeriod.MONTH: LimitKind.TOKENS_PER_MONTH,
}


class Owner(NamedTuple):
    """Whose counter it is."""

    scope: LimitScope
    owner_id: int


@dataclass(slots=True)
class BudgetUse:
    """Tokens used since `start`. What running requests have reserved is not in it."""

    start: date
    num_tokens: int = 0


@dataclass(slots=True)
class Counter:
    """See the module. `used` is counted with the records, not here: it only rolls over."""

    owner: Owner
    window: MinuteWindow = field(default_factory=MinuteWindow)
    num_open: int = 0
    num_reserved_tokens: int = 0
    used: dict[BudgetPeriod, BudgetUse] = field(default_factory=dict)
    _day_ends_at: float = 0.0

    def move_to(self, now: float) -> None:
        """Forget what no longer counts at `now` (Unix seconds)."""
        self.window.forget(now)
        if now < self._day_ends_at:
            return  # weeks and months end with a day
        self._day_ends_at = now + seconds_left(BudgetPeriod.DAY, now)
        for period in BudgetPeriod:
            start = period_start(period, now)
            use = self.used.get(period)
            if use is None or use.start < start:
                self.used[period] = BudgetUse(start)

    def take(self, now: float, *, num_tokens: int) -> int:
        """Let one request in; returns the slot that it was counted in."""
        self.num_open += 1
        self.num_reserved_tokens += num_tokens
        return self.window.add(now, num_requests=1, num_tokens=num_tokens)

    def settle(self, now: float, *, slot: int, num_reserved: int, num_tokens: int) -> None:
        """A request has ended. More than was reserved counts now, less is corrected where it counted."""
        self._close(num_reserved)
        if num_tokens > num_reserved:
            self.window.add(now, num_tokens=num_tokens - num_reserved)
        else:
            self.window.correct(slot, num_tokens=num_tokens - num_reserved)

    def refund(self, *, slot: int, num_reserved: int) -> None:
        """A request did not begin: as if it had never come."""
        self._close(num_reserved)
        self.window.correct(slot, num_requests=-1, num_tokens=-num_reserved)

    def _close(self, num_reserved: int) -> None:
        self.num_open = max(0, self.num_open - 1)
        self.num_reserved_tokens = max(0, self.num_reserved_tokens - num_reserved)

    # -- what limits say to it; `move_to(now)` comes before ------------------------------------------

    def refusal(self, limits: Limits, now: float, *, num_tokens: int) -> Refusal | None:
        """What stands against one request of so many tokens, the longest wait first.

        A request that is larger than a whole limit may begin where nothing else counts: it would
        never be let in otherwise, and goes over the line alone.
        """
        return max(self._refusals(limits, now, num_tokens), key=lambda one: one.wait_s, default=None)

    def _refusals(self, limits: Limits, now: float, num_tokens: int) -> Iterator[Refusal]:
        scope, window = self.owner.scope, self.window
        for period, kind in BUDGET_KINDS.items():
            budget = limits.budget(period)
            taken = self.used[period].num_tokens + self.num_reserved_tokens
            if budget is not None and _is_over(taken, num_tokens, budget):
                yield Refusal(scope, kind, budget, taken, num_tokens, seconds_left(period, now))
        most = limits.max_requests_per_minute
        if most is not None and _is_over(window.num_requests, 1, most):
            wait_s = window.wait_for_requests(now, excess=window.num_requests + 1 - most)
            yield Refusal(scope, LimitKind.REQUESTS_PER_MINUTE, most, window.num_requests, 1, wait_s)
        most, taken = limits.max_tokens_per_minute, window.num_tokens
        if most is not None and _is_over(taken, num_tokens, most):
            wait_s = window.wait_for_tokens(now, excess=taken + min(num_tokens, most) - most)
            yield Refusal(scope, LimitKind.TOKENS_PER_MINUTE, most, taken, num_tokens, wait_s)
        most = limits.max_parallel_requests
        if most is not None and self.num_open >= most:
            yield Refusal(scope, LimitKind.PARALLEL_REQUESTS, most, self.num_open, 1, PARALLEL_WAIT_S)

    def requests_quota(self, limits: Limits, now: float) -> Quota | None:
        return self._quota(limits.max_requests_per_minute, self.window.num_requests, now)

    def tokens_quota(self, limits: Limits, now: float) -> Quota | None:
        return self._quota(limits.max_tokens_per_minute, self.window.num_tokens, now)

    def _quota(self, limit: int | None, taken: int, now: float) -> Quota | None:
        if limit is None:
            return None
        return Quota(limit, max(0, limit - taken), self.window.reset_s(now) if taken else 0.0)

    def check_integrity(self) -> None:
        """AssertionError if anything is negative, or something is reserved for nobody."""
        assert self.num_open >= 0 and self.num_reserved_tokens >= 0, self
        assert self.num_open or not self.num_reserved_tokens, self
        assert all(number >= 0 for number in self.window.numbers()), self


def _is_over(taken: int, needed: int, limit: int) -> bool:
    return taken + min(needed, limit) > limit or limit == 0
