"""Would fewer requests at once serve as well, and each of them sooner?

The rule in concurrency.py tries one more where it might pay. A service that starts with all its lanes
has none to add and would never learn that half of them had done. So where one more is not possible or
did not pay, now and then one fewer is tried, and kept where what is served stays the same and latency
falls as it does where lanes only share what there is.

    8 windows at one limit ──▶ one fewer; when those who ran before are through: 4 windows
        97 % of what was served before the descent, and sooner: kept, and the next one is tried
        else: taken back; after each failure in a row the wait until the next attempt doubles

A step of one lane is a small thing to see in a noisy window of 16 requests, hence several of them, and
all steps of a descent are compared with where it began, or small losses would add up.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import fmean

NUM_TRIAL_WINDOWS = 4
MAX_PATIENCE = 8


@dataclass(frozen=True, slots=True)
class Level:
    """What a limit is worth: all tokens by second of a window, and its 95th percentile of latency."""

    limit: int
    served_per_s: float
    p95_latency_s: float


class Relief:
    """`min_windows` at one limit come before each attempt, 0 is never; `max_loss` is a share of what was
    served. `has_descended`: the limit is where it is because fewer served as well."""

    def __init__(self, *, min_windows: int, max_loss: float) -> None:
        self._min_windows = min_windows
        self._max_loss = max_loss
        self._patience = 1
        self._steady: deque[Level] = deque(maxlen=max(min_windows, 1))
        self._num_steady = 0
        self._is_descending = False
        self.has_descended = False
        self._anchor: Level | None = None
        self._trial: list[Level] = []

    def forget(self) -> None:
        """What was seen is of another time or of another level."""
        self._patience = 1
        self._steady.clear()
        self._num_steady = 0
        self._is_descending = False
        self.has_descended = False
        self._anchor = None

    def note_steady(self, level: Level) -> None:
        """A window in which nothing was tried."""
        self._steady.append(level)
        self._num_steady += 1

    @property
    def is_enabled(self) -> bool:
        return self._min_windows > 0

    @property
    def is_due(self) -> bool:
        """It has waited long enough since the last attempt, or that one was kept."""
        return self._is_descending or self._num_steady >= self._min_windows * self._patience

    def begin(self) -> None:
        """One fewer is tried from now on; it `is_due`."""
        if self._anchor is None:
            self._anchor = _mean(self._steady)
        self._steady.clear()
        self._num_steady = 0
        self._is_descending = False
        self._trial = []

    def judge(self, level: Level) -> bool | None:
        """Whether it is kept, after one more window of the trial; None while that is open."""
        anchor = self._anchor
        assert anchor is not None
        self._trial.append(level)
        mean = _mean(self._trial)
        # The fewer windows, the less is a small loss to be believed.
        max_loss = self._max_loss * NUM_TRIAL_WINDOWS / len(self._trial)
        if mean.served_per_s < anchor.served_per_s * (1 - max_loss):
            return self._end(is_kept=False)
        if len(self._trial) < NUM_TRIAL_WINDOWS:
            return None
        # Where lanes share what there is, latency falls as the limit does; where they do not, it stays.
        # Halfway is the border between the two.
        expected = (1 + level.limit / anchor.limit) / 2
        return self._end(is_kept=mean.p95_latency_s <= anchor.p95_latency_s * expected)

    def _end(self, *, is_kept: bool) -> bool:
        self._is_descending = is_kept
        self.has_descended = self.has_descended or is_kept
        self._patience = 1 if is_kept else min(2 * self._patience, MAX_PATIENCE)
        return is_kept

    def __repr__(self) -> str:
        return f"<Relief: {self._num_steady} of {self._min_windows * self._patience} windows>"


def _mean(levels: deque[Level] | list[Level]) -> Level:
    return Level(
        levels[-1].limit,
        fmean(level.served_per_s for level in levels),
        fmean(level.p95_latency_s for level in levels),
    )
