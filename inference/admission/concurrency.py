"""How many requests should run at once? Tries one more, keeps it where it pays, takes it back where not.

More lanes share each step of the engine, until the machine has nothing left to share: from then on
everybody is slower and nobody is served sooner. Where that point lies depends on the machine and on
the requests, so it is looked for while serving:

    window of 16 completed requests under demand ──▶ probe: one more may run ──▶ next window
        better by 3 %, neither latency nor time per token worse by 10 %: commit, and probe again
        else: rollback, and no probe for the next 2 windows
    time per token worse by 10 % with nothing being tried, or a failure: backoff, one fewer may run
    where one more is not possible or did not pay: now and then one fewer is tried (relief.py)

Only windows under demand count: where nobody waits, fewer running requests prove nothing. The rule
only decides. It has no clock and no lock; limiter.py does what it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from inference.admission.estimator import percentile
from inference.admission.relief import Level, Relief
from inference.domain.admission_events import ConcurrencyAdapted, LimitAction, LimitReason

MIN_LIMIT = 1


@dataclass(frozen=True, slots=True)
class ConcurrencySettings:
    """Thresholds of the rule. Shares are of 1: 0.03 is 3 %.

    `initial_limit` None is the number of lanes. `cooldown_windows` pass without a probe after a step
    back; after `idle_reset_s` without demand, older measurements are forgotten. `relief_windows` at one
    limit pass before one fewer is tried; with 0, that is never tried.
    """

    is_adaptive: bool = False
    initial_limit: int | None = None
    window: int = 16
    min_improvement: float = 0.03
    max_latency_regression: float = 0.10
    max_hardware_regression: float = 0.10
    cooldown_windows: int = 2
    relief_windows: int = 8
    idle_reset_s: float = 5.0


@dataclass(frozen=True, slots=True)
class CompletionObservation:
    """One completed request.

    `num_completed_tokens` are those of prompt and answer, `num_executed_tokens` without those that
    the prefix cache had. `latency_s` is from the start to the end, without the wait.
    `is_saturated`: others wanted its lane at some time. `was_at_capacity`: with it, the limit was
    reached.
    """

    num_completed_tokens: int
    num_executed_tokens: int
    latency_s: float
    is_saturated: bool
    was_at_capacity: bool
    started_ts: float


@dataclass(frozen=True, slots=True)
class WindowMetrics:
    """`tokens_per_s` since the earliest start, `served_per_s` since the window before it."""

    tokens_per_s: float
    served_per_s: float
    p95_latency_s: float
    p95_hardware_s_per_token: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One more request runs than `committed_limit`, whose metrics were `baseline`; or one fewer."""

    committed_limit: int
    baseline: WindowMetrics
    is_relief: bool = False


class Window:
    """The completed requests since the last decision."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen: list[CompletionObservation] = []
        self._begin_ts: float | None = None

    def reset(self, now_ts: float | None = None) -> None:
        """Begin anew, at an instant where it follows another one."""
        self._seen.clear()
        self._begin_ts = now_ts

    def push(self, observation: CompletionObservation) -> None:
        self._seen.append(observation)

    def metrics(self, now_ts: float) -> WindowMetrics | None:
        """None while it is not complete."""
        if len(self._seen) < self._size:
            return None
        first_ts = min(one.started_ts for one in self._seen)
        begin_ts = first_ts if self._begin_ts is None else self._begin_ts
        if now_ts <= first_ts or now_ts <= begin_ts:
            return None
        num_tokens = sum(one.num_completed_tokens for one in self._seen)
        return WindowMetrics(
            tokens_per_s=num_tokens / (now_ts - first_ts),
            served_per_s=num_tokens / (now_ts - begin_ts),
            p95_latency_s=percentile([one.latency_s for one in self._seen], 0.95),
            p95_hardware_s_per_token=percentile(
                [one.latency_s / one.num_executed_tokens for one in self._seen], 0.95
            ),
        )


class AdaptiveConcurrency:
    """The state machine. Each `observe_…` returns what was decided, or None; `limit` is the outcome."""

    def __init__(self, settings: ConcurrencySettings, *, max_limit: int) -> None:
        initial = max_limit if settings.initial_limit is None else settings.initial_limit
        self._settings = settings
        self._max_limit = max(max_limit, MIN_LIMIT)
        self._limit = min(max(initial, MIN_LIMIT), self._max_limit)
        self._window = Window(settings.window)
        self._baseline: WindowMetrics | None = None
        self._trial: Trial | None = None
        self._cooldown = 0
        self._relief = Relief(min_windows=settings.relief_windows, max_loss=settings.min_improvement)
        self._is_peak = False
        self._num_to_skip = 0
        self._last_saturated_ts: float | None = None
        self._num_observed = 0
        self._num_saturated = 0

    @property
    def limit(self) -> int:
        return self._limit

    # -- what happens ---------------------------------------------------------------------------

    def observe_completed(
        self, seen: CompletionObservation, *, now_ts: float, num_retiring: int
    ) -> ConcurrencyAdapted | None:
        """A request is complete; `num_retiring` permits are held beyond the limit."""
        if not _is_measurement(seen):
            self._window.reset()
            return None
        if self._num_to_skip:
            self._num_to_skip -= 1
            self._window.reset(now_ts)
            return None
        self._num_observed += 1
        is_filling_trial = self._trial is not None and seen.was_at_capacity
        if not seen.is_saturated and not is_filling_trial:
            return self._counted(self._without_demand(now_ts))
        self._last_saturated_ts = now_ts
        self._num_saturated += 1
        self._window.push(seen)
        metrics = self._window.metrics(now_ts)
        if metrics is None:
            return self._counted(self._hold_without_demand())
        self._window.reset(now_ts)
        trial = self._trial
        if trial is not None:
            evaluate = self._evaluate_relief if trial.is_relief else self._evaluate_trial
            return self._counted(evaluate(trial, metrics))
        return self._counted(self._evaluate_committed(metrics, num_retiring=num_retiring))

    def observe_failed(self) -> ConcurrencyAdapted:
        """The engine failed with a request: what was measured says nothing any more."""
        self._window.reset()
        self._forget_level()
        self._last_saturated_ts = None
        self._num_observed = self._num_saturated = 0
        if self._trial is not None:
            return self._roll_back(self._trial, LimitReason.GENERATION_FAILURE)
        if self._limit <= MIN_LIMIT:
            return self._decision(LimitAction.HOLD, LimitReason.FAILURE_AT_MINIMUM)
        return self._back_off(LimitReason.GENERATION_FAILURE)

    # -- what is decided ------------------------------------------------------------------------

    def _without_demand(self, now_ts: float) -> ConcurrencyAdapted | None:
        """One gap does not matter; after a longer one, the window is of another time."""
        last_ts = self._last_saturated_ts
        if last_ts is not None and now_ts - last_ts >= self._settings.idle_reset_s:
            self._window.reset()
            self._forget_level()
            self._last_saturated_ts = None
            if self._trial is not None:
                return self._roll_back(self._trial, LimitReason.DEMAND_ENDED)
        return self._hold_without_demand()

    def _hold_without_demand(self) -> ConcurrencyAdapted | None:
        if self._num_observed < self._settings.window:
            return None
        return self._decision(LimitAction.HOLD, LimitReason.NO_SUSTAINED_DEMAND)

    def _evaluate_trial(self, trial: Trial, now: WindowMetrics) -> ConcurrencyAdapted:
        settings, was = self._settings, trial.baseline
        is_slower = now.p95_latency_s > was.p95_latency_s * (1 + settings.max_latency_regression)
        if self._is_under_pressure(was, now):
            reason = LimitReason.HARDWARE_BACKPRESSURE
        elif is_slower:
            reason = LimitReason.LATENCY_REGRESSION
        elif now.tokens_per_s / was.tokens_per_s - 1 < settings.min_improvement:
            reason = LimitReason.NOT_IMPROVED
        else:
            self._forget_level()
            return self._commit(trial, LimitReason.PROBE_HEALTHY, now)
        self._is_peak = True
        return self._roll_back(trial, reason, now=now)

    def _evaluate_relief(self, trial: Trial, now: WindowMetrics) -> ConcurrencyAdapted:
        is_kept = self._relief.judge(Level(self._limit, now.served_per_s, now.p95_latency_s))
        if is_kept is None:
            return self._decision(LimitAction.HOLD, LimitReason.RELIEF_OPEN, was=trial.baseline, now=now)
        if is_kept:
            self._is_peak = True
            return self._commit(trial, LimitReason.RELIEF_HEALTHY, now)
        self._is_peak = False
        return self._roll_back(trial, LimitReason.RELIEF_COSTS, now=now)

    def _evaluate_committed(self, now: WindowMetrics, *, num_retiring: int) -> ConcurrencyAdapted:
        was = self._baseline
        if was is not None and self._limit > MIN_LIMIT and self._is_under_pressure(was, now):
            return self._back_off(LimitReason.HARDWARE_BACKPRESSURE, was=was, now=now)
        self._baseline = now
        self._relief.note_steady(Level(self._limit, now.served_per_s, now.p95_latency_s))
        if self._cooldown > 0:
            self._cooldown -= 1
            return self._decision(LimitAction.HOLD, LimitReason.COOLDOWN, was=was, now=now)
        may_relieve = self._relief.is_enabled and self._limit > MIN_LIMIT
        is_peak = self._is_peak or self._limit >= self._max_limit
        if may_relieve and is_peak and self._relief.is_due:
            return self._relieve(was, now)
        if self._limit >= self._max_limit:
            return self._decision(LimitAction.HOLD, LimitReason.CEILING_REACHED, was=was, now=now)
        if num_retiring > 0:
            return self._decision(LimitAction.HOLD, LimitReason.ROLLBACK_DRAINING, was=was, now=now)
        if may_relieve and is_peak and self._relief.has_descended:
            # Fewer have served as well. Chance alone would lead up again, if that were tried more often.
            return self._decision(LimitAction.HOLD, LimitReason.COOLDOWN, was=was, now=now)
        self._trial = Trial(self._limit, now)
        return self._decision(
            LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, limit=self._limit + 1, was=was, now=now
        )

    def _relieve(self, was: WindowMetrics | None, now: WindowMetrics) -> ConcurrencyAdapted:
        self._relief.begin()
        # Those who run now have had more beside them than there will be.
        self._num_to_skip = self._limit
        self._trial = Trial(self._limit, now, is_relief=True)
        return self._decision(LimitAction.PROBE, LimitReason.RELIEF, limit=self._limit - 1, was=was, now=now)

    def _commit(self, trial: Trial, reason: LimitReason, now: WindowMetrics) -> ConcurrencyAdapted:
        self._trial = None
        self._baseline = now
        self._cooldown = 0
        kept = self._decision(LimitAction.COMMIT, reason, was=trial.baseline, now=now)
        return replace(kept, previous_limit=trial.committed_limit)

    def _forget_level(self) -> None:
        """What was measured is of another level or of another time."""
        self._baseline = None
        self._is_peak = False
        self._num_to_skip = 0
        self._relief.forget()

    def _is_under_pressure(self, was: WindowMetrics, now: WindowMetrics) -> bool:
        most = was.p95_hardware_s_per_token * (1 + self._settings.max_hardware_regression)
        return now.p95_hardware_s_per_token > most

    def _roll_back(
        self, trial: Trial, reason: LimitReason, *, now: WindowMetrics | None = None
    ) -> ConcurrencyAdapted:
        self._trial = None
        self._baseline = None
        self._cooldown = self._settings.cooldown_windows
        return self._decision(
            LimitAction.ROLLBACK, reason, limit=trial.committed_limit, was=trial.baseline, now=now
        )

    def _back_off(
        self, reason: LimitReason, *, was: WindowMetrics | None = None, now: WindowMetrics | None = None
    ) -> ConcurrencyAdapted:
        self._forget_level()
        self._cooldown = self._settings.cooldown_windows
        return self._decision(LimitAction.BACKOFF, reason, limit=self._limit - 1, was=was, now=now)

    # -- how it is told -------------------------------------------------------------------------

    def _decision(
        self,
        action: LimitAction,
        reason: LimitReason,
        *,
        limit: int | None = None,
        was: WindowMetrics | None = None,
        now: WindowMetrics | None = None,
    ) -> ConcurrencyAdapted:
        previous = self._limit
        self._limit = previous if limit is None else limit
        decision = ConcurrencyAdapted(action, reason, previous, self._limit, self._max_limit)
        if now is None:
            return decision
        decision = replace(
            decision,
            tokens_per_s=now.tokens_per_s,
            p95_latency_s=now.p95_latency_s,
            p95_hardware_s_per_token=now.p95_hardware_s_per_token,
        )
        if was is None:
            return decision
        return replace(
            decision,
            throughput_improvement=now.tokens_per_s / was.tokens_per_s - 1,
            p95_latency_ratio=now.p95_latency_s / was.p95_latency_s,
            hardware_pressure_ratio=now.p95_hardware_s_per_token / was.p95_hardware_s_per_token,
        )

    def _counted(self, decision: ConcurrencyAdapted | None) -> ConcurrencyAdapted | None:
        """Tell how many requests led to it, and count anew."""
        if decision is None:
            return None
        decision = replace(decision, num_observed=self._num_observed, num_saturated=self._num_saturated)
        self._num_observed = self._num_saturated = 0
        return decision

    def __repr__(self) -> str:
        state = "probing" if self._trial is not None else f"cooldown {self._cooldown}"
        return f"<AdaptiveConcurrency: limit {self._limit} of {self._max_limit}, {state}>"


def _is_measurement(seen: CompletionObservation) -> bool:
    has_tokens = seen.num_completed_tokens > 0 and seen.num_executed_tokens > 0
    return has_tokens and math.isfinite(seen.latency_s) and seen.latency_s > 0
