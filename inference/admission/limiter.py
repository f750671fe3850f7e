"""Keeps no more requests running than the limit of the moment, whoever sets it.

The rule that decides on the limit (`concurrency.py`) knows windows and percentiles; this one knows
permits. A limit that falls below what runs takes nobody's permit away: as many permits as are too
many are retired when they come back, instead of being lent again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LimiterStatistics:
    """`num_retiring` permits are held beyond the limit; they are not lent again."""

    limit: int
    max_limit: int
    num_held: int
    num_retiring: int


class Permit:
    """The right to run, beside the lane to run on; `release()` gives it back once."""

    __slots__ = ("_limiter",)

    def __init__(self, limiter: ConcurrencyLimiter) -> None:
        self._limiter: ConcurrencyLimiter | None = limiter

    def release(self) -> None:
        limiter, self._limiter = self._limiter, None
        if limiter is not None:
            limiter._held.remove(self)

    def __repr__(self) -> str:
        return f"<Permit, {'held' if self._limiter is not None else 'released'}>"


class ConcurrencyLimiter:
    """Not thread-safe by itself: the controller's mutex guards it."""

    def __init__(self, *, limit: int, max_limit: int) -> None:
        if not 1 <= limit <= max_limit:
            raise ValueError(f"a limit of {limit} is not within 1 and {max_limit}")
        self._limit = limit
        self._max_limit = max_limit
        self._held: set[Permit] = set()

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def num_available(self) -> int:
        """Permits that can be lent now."""
        return max(self._limit - len(self._held), 0)

    @property
    def num_retiring(self) -> int:
        return max(len(self._held) - self._limit, 0)

    def set_limit(self, limit: int) -> None:
        """From now on; what runs beyond it goes on."""
        if not 1 <= limit <= self._max_limit:
            raise ValueError(f"a limit of {limit} is not within 1 and {self._max_limit}")
        self._limit = limit

    def try_acquire(self) -> Permit | None:
        if not self.num_available:
            return None
        permit = Permit(self)
        self._held.add(permit)
        return permit

    def statistics(self) -> LimiterStatistics:
        return LimiterStatistics(self._limit, self._max_limit, len(self._held), self.num_retiring)

    def check_integrity(self) -> None:
        """Raise AssertionError unless the permits add up to what there can be."""
        assert 1 <= self._limit <= self._max_limit, repr(self)
        assert len(self._held) <= self._max_limit, repr(self)
        assert all(permit._limiter is self for permit in self._held), repr(self)

    def __repr__(self) -> str:
        return f"<ConcurrencyLimiter: {len(self._held)} run, at most {self._limit} of {self._max_limit}>"
