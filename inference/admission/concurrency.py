"""How many requests should run at once? Tries one more, keeps it where it pays, takes it back where not.

More lanes share each step of the engine, until the machine has nothing left to share: from then on
everybody is slower and nobody is served sooner. Where that point lies depends on the machine and on
the requests, so it is looked for while serving:

    window of 16 completed requests under demand ──▶ probe: one more may run ──▶ next window
        better by 3 %, neither latency nor time per token worse by 10 %: commit, and probe again
        else: rollback, and no probe for the next 2 windows
    time per token worse by 10 % with nothing being tried, or a failure: backoff, one fewer may run

Only windows under demand count: where nobody waits, fewer running requests prove nothing. The rule
only decides. It has no clock and no lock; limiter.py does what it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from inference.admission.estimator import percentile
from inference.domain.admission_events import ConcurrencyAdapted, LimitAction, LimitReason

MIN_LIMIT = 1


@dataclass(frozen=True, slots=True)
class ConcurrencySettings:
    """Thresholds of the rule. Shares are of 1: 0.03 is 3 %.

    `initial_limit` None is the number of lanes. `cooldown_windows` pass without a probe after a step
    back; after `idle_reset_s` without demand, older measurements are forgotten.
    """

    is_adaptive: bool = False
    initial_limit: int | None = None
    window: int = 16
    min_improvement: float = 0.03
    max_latency_regression: float = 0.10
    max_hardware_regression: float = 0.10
    cooldown_windows: int = 2
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
    tokens_per_s: float
    p95_latency_s: float
    p95_hardware_s_per_token: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One more request runs than `committed_limit`, whose metrics were `baseline`."""

    committed_limit: int
    baseline: WindowMetrics


class Window:
    """The completed requests since the last decision."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen: list[CompletionObservation] = []

    def reset(self) -> None:
        self._seen.clear()

    def push(self, observation: CompletionObservation) -> None:
        self._seen.append(observation)

    def metrics(self, now_ts: float) -> WindowMetrics | None:
        """None while it is not complete."""
        if len(self._seen) < self._size:
            return None
        elapsed_s = now_ts - min(one.started_ts for one in self._seen)
        if elapsed_s <= 0:
            return None
        return WindowMetrics(
            tokens_per_s=sum(one.num_completed_tokens for one in self._seen) / elapsed_s,
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
        self._window.reset()
        if self._trial is not None:
            return self._counted(self._evaluate_trial(self._trial, metrics))
        return self._counted(self._evaluate_committed(metrics, num_retiring=num_retiring))

    def observe_failed(self) -> ConcurrencyAdapted:
        """The engine failed with a request: what was measured says nothing any more."""
        self._window.reset()
        self._baseline = None
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
            self._baseline = None
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
            self._trial = None
            self._baseline = now
            self._cooldown = 0
            kept = self._decision(LimitAction.COMMIT, LimitReason.PROBE_HEALTHY, was=was, now=now)
            return replace(kept, previous_limit=trial.committed_limit)
        return self._roll_back(trial, reason, now=now)

    def _evaluate_committed(self, now: WindowMetrics, *, num_retiring: int) -> ConcurrencyAdapted:
        was = self._baseline
        if was is not None and self._limit > MIN_LIMIT and self._is_under_pressure(was, now):
            return self._back_off(LimitReason.HARDWARE_BACKPRESSURE, was=was, now=now)
        self._baseline = now
        if self._cooldown > 0:
            self._cooldown -= 1
            return self._decision(LimitAction.HOLD, LimitReason.COOLDOWN, was=was, now=now)
        if self._limit >= self._max_limit:
            return self._decision(LimitAction.HOLD, LimitReason.CEILING_REACHED, was=was, now=now)
        if num_retiring > 0:
            return self._decision(LimitAction.HOLD, LimitReason.ROLLBACK_DRAINING, was=was, now=now)
        self._trial = Trial(self._limit, now)
        return self._decision(
            LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, limit=self._limit + 1, was=was, now=now
        )

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
        self._baseline = None
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
