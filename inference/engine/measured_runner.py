"""Runs the plans of steps, and lets everybody who learns from it know how long each took."""

from __future__ import annotations

import logging

from inference.domain.clock import Clock
from inference.engine.counters import EngineCounters
from inference.engine.drafting.speculation import Speculation
from inference.engine.model_runner import ModelRunner
from inference.engine.pacing import PrefillPacer
from inference.engine.plan import StepOutcome, StepPlan, StepResult
from inference.engine.step_meter import StepMeter

logger = logging.getLogger(__name__)


class MeasuredRunner:
    """Belongs to the engine thread. What a runner raises is a step that failed."""

    def __init__(
        self,
        runner: ModelRunner,
        clock: Clock,
        counters: EngineCounters,
        meter: StepMeter,
        *,
        pacer: PrefillPacer,
        speculation: Speculation,
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._counters = counters
        self._meter = meter
        self._pacer = pacer
        self._speculation = speculation

    def run(self, plan: StepPlan) -> StepResult:
        begin_ts = self._clock.monotonic()
        try:
            result = self._runner.run(plan)
        except Exception:
            logger.exception("A step with %d tokens failed", plan.num_tokens)
            result = StepResult(StepOutcome.FAILED)
        end_ts = self._clock.monotonic()
        self._meter.ran(end_ts - begin_ts, result.compute_s)
        self._counters.num_steps += 1
        self._counters.last_step_ts = end_ts
        if self._speculation.members:
            self._speculation.observe(plan, result, end_ts - begin_ts)
        if plan.prefills and not plan.num_scored and result.outcome is StepOutcome.DONE:
            self._pacer.observe(
                num_tokens=plan.num_tokens,
                num_prefill_tokens=plan.num_prefill_tokens,
                duration_s=end_ts - begin_ts,
            )
        return result
