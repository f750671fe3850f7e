"""How much of a step may go into copying states: a stream's reader feels every millisecond of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

# While anybody reads a stream, and while only prompts wait (about what a step of theirs may take).
MAX_COPY_BESIDE_STREAMS_S = 0.02
MAX_COPY_S = 0.2
# How much of a new measurement goes into what is expected.
_WEIGHT = 0.25
# What is never measured again is believed a little less with each refusal.
_FADING = 0.98


class CopyKind(Enum):
    SAVE = "save"
    RESTORE = "restore"


class CopyBudget:
    """Allows copies within a step as long as the next one is expected to end in time, and, while streams
    run, of one state only.

    One that is expected to take longer than a whole budget has to wait for a step without streams, where
    at least one is always allowed.
    Sizes are in a unit of the caller's choice (bytes, say).
    """

    def __init__(self, now_ts: Callable[[], float]) -> None:
        self._now_ts = now_ts
        self._has_streams = False
        self._left_s = MAX_COPY_S
        self._owner: object = None
        self._costs_s: dict[CopyKind, float] = {}
        self.has_copied = False
        """Something was copied in this step."""

    def begin_step(self, *, has_streams: bool) -> None:
        self._has_streams = has_streams
        self._left_s = self._whole_s
        self._owner = None
        self.has_copied = False

    @property
    def _whole_s(self) -> float:
        return MAX_COPY_BESIDE_STREAMS_S if self._has_streams else MAX_COPY_S

    def allows(self, kind: CopyKind, size: int, owner: object) -> bool:
        """Whether a copy of this size, of the state of `owner`, may begin now."""
        if not self._has_streams and not self.has_copied:
            return True
        if self._left_s <= 0 or (self._has_streams and self._owner not in (None, owner)):
            return False
        expected_s = self._costs_s.get(kind, 0.0) * size
        if expected_s > self._whole_s:
            self._costs_s[kind] *= _FADING
        if expected_s > self._left_s:
            return False
        self._owner = owner
        return True

    def spend(self, kind: CopyKind, size: int, begin_ts: float) -> float:
        """A copy that began at `begin_ts` (monotonic) has just ended; returns how long it took."""
        elapsed_s = self._now_ts() - begin_ts
        cost_s = elapsed_s / max(size, 1)
        known_s = self._costs_s.get(kind, cost_s)
        self._costs_s[kind] = known_s + _WEIGHT * (cost_s - known_s)
        self._left_s -= elapsed_s
        self.has_copied = True
        return elapsed_s

    def __repr__(self) -> str:
        return f"<CopyBudget, {1000 * self._left_s:.1f} of {1000 * self._whole_s:.0f} ms left>"
