"""Notices that an engine has stopped making progress, although it says that it is alive.

A batch that never returns (a driver that hangs, a page of weights on a disk that is gone) raises
nothing and ends nothing: everybody just waits. Only somebody outside of the engine thread can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.engine.stats import EngineStatistics

# A step may take so many times what the slowest one took. On a machine that swaps, steps differ by
# about that much; more would hide a fault for longer than clients wait.
SLOW_STEP_FACTOR = 4.0
# Longer pauses between two looks are not held against the engine: the whole process stood still
# (a debugger, SIGSTOP, a machine that slept), or the loop that looks was itself late.
MAX_LOOK_GAP_S = 5.0


@dataclass(frozen=True, slots=True)
class Stall:
    """For how long nothing moved, and how long it might have taken; `what` did not happen, and `state` is
    what there is of it."""

    stalled_s: float
    allowed_s: float
    what: str
    state: str

    def __str__(self) -> str:
        return f"{self.what} for {self.stalled_s:.0f} s (the limit is {self.allowed_s:.0f} s): {self.state}"


class Stillness:
    """For how long nothing has moved, from one look to the next."""

    def __init__(self) -> None:
        self._looked_ts = 0.0
        self._still_s = 0.0

    def look(self, now_ts: float, *, has_moved: bool) -> float:
        looked_ts, self._looked_ts = self._looked_ts, now_ts
        gap_s = min(max(now_ts - looked_ts, 0.0), MAX_LOOK_GAP_S)
        self._still_s = 0.0 if has_moved else self._still_s + gap_s
        return self._still_s


class Watchdog:
    """Compares one snapshot with the one before; `observe` is to be called every second or so.

    Progress is a step that ended, or, where nothing can be computed, a turn of the loop, which an
    engine makes every second even when it sleeps. Sequences that wait for something else (for cells,
    for a prefix, for a reader) are no work that is late.

    `stall_after_s`: patience with a step, 0: no watch. It must be longer than any step may take. A
    step holds at most 128 prompt tokens until it was measured how long they take, and about 0.2 s of
    work afterwards, so that the default of 120 s stands for a machine that reads one token a second;
    where steps turn out to be slow, patience grows with them.
    """

    def __init__(self, stall_after_s: float) -> None:
        self._stall_after_s = stall_after_s
        self._before: tuple[int, int] | None = None
        self._stillness = Stillness()

    def observe(self, statistics: EngineStatistics, now_ts: float) -> Stall | None:
        """`now_ts`: monotonic seconds. A stall is returned at every look while it lasts."""
        before, self._before = self._before, (statistics.total_steps, statistics.total_turns)
        if not self._stall_after_s or not statistics.is_alive:
            self._before = None
            return None
        has_moved = before is None or self._has_moved(before, statistics)
        stalled_s = self._stillness.look(now_ts, has_moved=has_moved)
        allowed_s = max(self._stall_after_s, SLOW_STEP_FACTOR * statistics.max_step_s)
        is_late = not has_moved and stalled_s >= allowed_s
        return Stall(stalled_s, allowed_s, "no step has ended", _state(statistics)) if is_late else None

    @staticmethod
    def _has_moved(before: tuple[int, int], statistics: EngineStatistics) -> bool:
        num_steps, num_turns = before
        if statistics.total_steps != num_steps:
            return True
        return not statistics.num_runnable and statistics.total_turns != num_turns

    def __repr__(self) -> str:
        return f"<Watchdog after {self._stall_after_s:g} s>"


def _state(now: EngineStatistics) -> str:
    return (
        f"{now.num_prefilling} prefilling, {now.num_decoding} decoding, {now.num_preempted} preempted, "
        f"{now.num_waiting_for_prefix} waiting for a prefix, {now.lanes.num_used} of "
        f"{now.lanes.num_lanes} lanes, {now.num_cells_used} of {now.num_cells} cells, "
        f"{now.total_steps} steps in all, of which the slowest took {now.max_step_s:.1f} s"
    )
