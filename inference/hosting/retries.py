"""When to try again what has failed: soon at first, then less and less often."""

from __future__ import annotations

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 300.0
# A model that has served for so long has not failed again, but anew.
HEALTHY_S = 60.0


class Retries:
    """The pauses between attempts of one model, on the monotonic clock."""

    def __init__(self) -> None:
        self._num_failures = 0
        self._next_ts = 0.0

    def note_failure(self, now_ts: float, *, healthy_s: float = 0.0) -> None:
        """`healthy_s`: how long it had worked before."""
        if healthy_s >= HEALTHY_S:
            self._num_failures = 0
        pause_s = min(FIRST_PAUSE_S * 2.0**self._num_failures, LONGEST_PAUSE_S)
        self._num_failures = min(self._num_failures + 1, 16)
        self._next_ts = now_ts + pause_s

    def reset(self) -> None:
        """Something has changed: what failed before says nothing."""
        self._num_failures = 0
        self._next_ts = 0.0

    def remaining_s(self, now_ts: float) -> float:
        """Until it may be tried again; 0 where it may."""
        return max(0.0, self._next_ts - now_ts)

    def __repr__(self) -> str:
        return f"<Retries after {self._num_failures} failures>"
