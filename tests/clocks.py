"""A clock that only moves when a test moves it."""

from __future__ import annotations


class FakeClock:
    """Implements inference.domain.clock.Clock."""

    def __init__(self, start: float = 1000.0) -> None:
        self.now = start

    def monotonic(self) -> float:
        return self.now

    def unix_time(self) -> float:
        return 1_700_000_000.0 + self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
