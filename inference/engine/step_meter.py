"""Where the time of the engine's steps goes, and how many tokens pass through it in a second.

It is called in every step, so it adds to a few numbers and looks at nothing; whoever reads pays for
the divisions. Rates come from marks that are set about once a second, not from a list of tokens.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from inference.engine.stats import PhaseTimes, RecentActivity

WINDOW_S = 10.0
MARK_EVERY_S = 1.0


class _Mark(NamedTuple):
    """All counters at one instant (monotonic seconds)."""

    at_ts: float
    num_steps: int
    num_prefill_tokens: int
    num_generated_tokens: int
    phases: PhaseTimes


class StepMeter:
    """Belongs to the engine thread; the properties and `recent` are for any thread.

    A step calls `ran` for each of its batches and `end_step` once. `mark` is called when
    `next_mark_ts` has passed, also while the engine is idle: a second without steps counts, too.
    """

    __slots__ = (
        "_compute_s",
        "_last",
        "_marks",
        "_max_step_s",
        "_num_steps",
        "_run_s",
        "_step_compute_s",
        "_step_run_s",
        "_sum_s",
        "_update_s",
        "next_mark_ts",
    )

    def __init__(self, now_ts: float) -> None:
        self._num_steps = 0
        self._sum_s = 0.0
        self._run_s = 0.0
        self._compute_s = 0.0
        self._update_s = 0.0
        self._step_run_s = 0.0
        self._step_compute_s = 0.0
        self._last = (0.0, 0.0, 0.0, 0.0)
        self._max_step_s = 0.0
        # One more than the window has seconds, so that one is at its beginning.
        self._marks: deque[_Mark] = deque(maxlen=int(WINDOW_S / MARK_EVERY_S) + 1)
        self.next_mark_ts = now_ts
        self.mark(now_ts, 0, 0)

    def ran(self, run_s: float, compute_s: float) -> None:
        """A batch took `run_s` from the plan to the drawn tokens, `compute_s` of it in the model."""
        self._step_run_s += run_s
        self._step_compute_s += compute_s

    def end_step(self, begin_ts: float, scheduled_ts: float, end_ts: float) -> None:
        """What is neither scheduling nor running is updating and delivering."""
        run_s, compute_s = self._step_run_s, self._step_compute_s
        self._step_run_s = self._step_compute_s = 0.0
        step_s = end_ts - begin_ts
        update_s = end_ts - scheduled_ts - run_s
        self._num_steps += 1
        self._sum_s += step_s
        self._run_s += run_s
        self._compute_s += compute_s
        self._update_s += update_s
        self._last = (step_s, run_s, compute_s, update_s)
        self._max_step_s = max(self._max_step_s, step_s)

    def mark(self, now_ts: float, num_prefill_tokens: int, num_generated_tokens: int) -> None:
        """Remember the counters, both of them since the start."""
        self.next_mark_ts = now_ts + MARK_EVERY_S
        self._marks.append(
            _Mark(now_ts, self._num_steps, num_prefill_tokens, num_generated_tokens, self.total_phases)
        )

    @property
    def total_phases(self) -> PhaseTimes:
        return _phases(self._sum_s, self._run_s, self._compute_s, self._update_s)

    @property
    def last_phases(self) -> PhaseTimes:
        return _phases(*self._last)

    @property
    def max_step_s(self) -> float:
        return self._max_step_s

    def recent(self, now_ts: float, num_prefill_tokens: int, num_generated_tokens: int) -> RecentActivity:
        """What happened in the last WINDOW_S seconds, or since the start where that is less."""
        marks = self._marks.copy()
        first = marks[0]
        for mark in marks:
            if mark.at_ts <= now_ts - WINDOW_S:
                first = mark
        window_s = now_ts - first.at_ts
        num_steps = self._num_steps - first.num_steps
        if window_s <= 0:
            return RecentActivity()
        return RecentActivity(
            window_s=window_s,
            num_steps=num_steps,
            prefill_tokens_per_s=(num_prefill_tokens - first.num_prefill_tokens) / window_s,
            generated_tokens_per_s=(num_generated_tokens - first.num_generated_tokens) / window_s,
            mean_phases=(self.total_phases - first.phases) / num_steps if num_steps else PhaseTimes(),
        )

    def __repr__(self) -> str:
        return f"<StepMeter {self._num_steps} steps, {self._sum_s:.3f} s>"


def _phases(step_s: float, run_s: float, compute_s: float, update_s: float) -> PhaseTimes:
    return PhaseTimes(
        schedule_s=max(step_s - run_s - update_s, 0.0),
        compute_s=compute_s,
        sample_s=max(run_s - compute_s, 0.0),
        update_s=max(update_s, 0.0),
    )
