"""A webhook that is down would make each request wait for its deadline; after a few failures in a row it is
not asked for a while, and then by one call alone, which decides whether the others may again.

States as in M. Nygard's "Release It!": closed (calls go through), open (none does), half-open (one does).
Plain state with an injected clock; used on one event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hooks.webhooks.clock import Clock


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """`max_failures` in a row open it, for `open_s`."""

    max_failures: int = 5
    open_s: float = 10.0


@dataclass(frozen=True, slots=True)
class BreakerStatistics:
    """`num_failures` are those since the last success; `num_openings` those since the start."""

    state: BreakerState
    num_failures: int
    num_openings: int


class CircuitOpen(Exception):
    """Not now."""


class CircuitBreaker:
    """Decides who may call; is told what came of it by the pass that it gave."""

    def __init__(self, rules: BreakerRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._num_failures = 0
        self._num_openings = 0
        self._open_until_ts: float | None = None
        self._probe: BreakerPass | None = None
        self._era = 0

    @property
    def state(self) -> BreakerState:
        """HALF_OPEN also where its time is over and nobody has called yet."""
        if self._open_until_ts is None:
            return BreakerState.CLOSED
        if self._probe is None and self._clock.monotonic() < self._open_until_ts:
            return BreakerState.OPEN
        return BreakerState.HALF_OPEN

    @property
    def would_refuse(self) -> bool:
        return self.state is BreakerState.OPEN or self._probe is not None

    def enter(self) -> BreakerPass:
        """A pass for one call. Raises CircuitOpen."""
        if self.would_refuse:
            raise CircuitOpen
        made = BreakerPass(self, self._era)
        if self._open_until_ts is not None:
            self._probe = made
        return made

    def _settle(self, made: BreakerPass, is_success: bool | None) -> None:
        if made.era != self._era:
            # Began before it opened or closed the last time: what it says is of yesterday.
            return
        if self._probe is made:
            self._probe = None
            if is_success is None:
                # Nothing was learned; the next call is the probe.
                return
            if is_success:
                self._open_until_ts = None
                self._era += 1
            else:
                self._open()
        if is_success:
            self._num_failures = 0
        elif is_success is False and self._open_until_ts is None:
            self._num_failures += 1
            if self._num_failures >= self._rules.max_failures:
                self._open()

    def _open(self) -> None:
        self._open_until_ts = self._clock.monotonic() + self._rules.open_s
        self._num_openings += 1
        self._era += 1

    def statistics(self) -> BreakerStatistics:
        return BreakerStatistics(self.state, self._num_failures, self._num_openings)

    def check_integrity(self) -> None:
        assert self._probe is None or self._open_until_ts is not None
        assert 0 <= self._num_failures <= self._rules.max_failures
        assert self._open_until_ts is None or self._num_failures == self._rules.max_failures

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self.state.value}, {self._num_failures} failures in a row>"


class BreakerPass:
    """One call's permission. Exactly one verdict counts; leaving the `with` block without any is none,
    which is what happens to a call that its own client gave up."""

    __slots__ = ("_breaker", "_is_settled", "era")

    def __init__(self, breaker: CircuitBreaker, era: int) -> None:
        self._breaker = breaker
        self._is_settled = False
        self.era = era

    def succeed(self) -> None:
        self._settle(True)

    def fail(self) -> None:
        self._settle(False)

    def _settle(self, is_success: bool | None) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._breaker._settle(self, is_success)

    def __enter__(self) -> BreakerPass:
        return self

    def __exit__(self, *error: object) -> None:
        self._settle(None)
