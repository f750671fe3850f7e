"""Decides how long to wait before a dead service is started again, and when to give it up.

Restarting at once turns a broken service into a busy loop; waiting for ever hides it. So the n-th
failure in a row waits 0.5 · 2^(n-1) seconds, at most 30, and a service that was well for a minute
begins anew. Deciding only: nothing here waits or starts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """The numbers. A service that was never ready is given up sooner: a person is waiting for it."""

    first_delay_s: float = 0.5
    max_delay_s: float = 30.0
    healthy_after_s: float = 60.0
    max_failures: int = 6
    max_failures_before_ready: int = 3


class Backoff:
    """Counts one service's failures in a row."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._was_ever_ready = False
        self.num_failures = 0

    def __repr__(self) -> str:
        return f"Backoff({self.num_failures} of {self._max_failures} failures)"

    @property
    def _max_failures(self) -> int:
        policy = self._policy
        return policy.max_failures if self._was_ever_ready else policy.max_failures_before_ready

    def became_ready(self) -> None:
        self._was_ever_ready = True

    def failed(self, *, healthy_s: float) -> float | None:
        """Seconds to wait before the next start, or None: give up.

        `healthy_s` is how long the service was ready before it died, 0 if it never was this time.
        """
        if healthy_s >= self._policy.healthy_after_s:
            self.num_failures = 0
        self.num_failures += 1
        if self.num_failures >= self._max_failures:
            return None
        delay_s: float = self._policy.first_delay_s * 2 ** (self.num_failures - 1)
        return min(delay_s, self._policy.max_delay_s)
