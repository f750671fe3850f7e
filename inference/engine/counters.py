"""What the engine has done since its start, counted where it happens and read as one snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from inference.engine.drafting.speculation import Speculation
from inference.engine.kv_memory import KvMemory
from inference.engine.lanes import LanePool
from inference.engine.model_runner import ModelRunner
from inference.engine.scheduler import Scheduler
from inference.engine.sequence import DECODING, HELD, PREEMPTED, PREFILLING, WAITING_FOR_PREFIX
from inference.engine.stats import EngineStatistics
from inference.engine.step_meter import StepMeter


@dataclass(slots=True)
class EngineCounters:
    """Changed by the engine thread only; they never fall. `last_step_ts` in monotonic seconds."""

    num_steps: int = 0
    num_failed_steps: int = 0
    num_sequences: int = 0
    num_failed_sequences: int = 0
    num_cancelled_sequences: int = 0
    num_preemptions: int = 0
    num_prefill_tokens: int = 0
    num_generated_tokens: int = 0
    num_injected_tokens: int = 0
    num_discarded_tokens: int = 0
    last_step_ts: float = 0.0

    def snapshot(
        self,
        *,
        is_alive: bool,
        now_ts: float,
        runner: ModelRunner,
        lanes: LanePool,
        memory: KvMemory,
        scheduler: Scheduler,
        speculation: Speculation,
        meter: StepMeter,
    ) -> EngineStatistics:
        """Each number is true, though not all at the same instant. From any thread."""
        states = [sequence.state for sequence in scheduler.sequences]
        return EngineStatistics(
            is_alive=is_alive,
            lanes=lanes.statistics,
            memory=runner.memory,
            num_cells=runner.num_cells,
            num_cells_used=memory.num_cells_running,
            num_prefilling=states.count(PREFILLING),
            num_decoding=states.count(DECODING),
            num_preempted=states.count(PREEMPTED),
            num_waiting_for_prefix=states.count(WAITING_FOR_PREFIX),
            num_held=states.count(HELD),
            total_steps=self.num_steps,
            total_failed_steps=self.num_failed_steps,
            total_sequences=self.num_sequences,
            total_failed_sequences=self.num_failed_sequences,
            total_cancelled_sequences=self.num_cancelled_sequences,
            total_preemptions=self.num_preemptions,
            total_prefill_tokens=self.num_prefill_tokens,
            total_generated_tokens=self.num_generated_tokens,
            total_injected_tokens=self.num_injected_tokens,
            total_discarded_tokens=self.num_discarded_tokens,
            total_drafted_tokens=speculation.num_drafted_tokens,
            total_accepted_tokens=speculation.num_accepted_tokens,
            last_step_ts=self.last_step_ts,
            max_step_s=meter.max_step_s,
            total_phases=meter.total_phases,
            last_phases=meter.last_phases,
            recent=meter.recent(now_ts, self.num_prefill_tokens, self.num_generated_tokens),
            cache=memory.affinity.statistics,
            cold=memory.cold_statistics,
        )
