"""What the engine is doing, as numbers that any thread may read at any time."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.domain.cache_affinity import PrefixCacheStatistics
from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.engine.lanes import LaneStatistics
from inference.engine.memory_plan import DeviceMemory


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """Seconds of one step, or of many together.

    `schedule_s`: electing, choosing and laying out the batch, making room for it. `compute_s`: in
    the model. `sample_s`: logprobs and drawing. `update_s`: cells, counters, endings, and handing the
    events over.
    """

    schedule_s: float = 0.0
    compute_s: float = 0.0
    sample_s: float = 0.0
    update_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.schedule_s + self.compute_s + self.sample_s + self.update_s

    def __sub__(self, other: PhaseTimes) -> PhaseTimes:
        return PhaseTimes(
            self.schedule_s - other.schedule_s,
            self.compute_s - other.compute_s,
            self.sample_s - other.sample_s,
            self.update_s - other.update_s,
        )

    def __truediv__(self, divisor: float) -> PhaseTimes:
        return PhaseTimes(
            self.schedule_s / divisor,
            self.compute_s / divisor,
            self.sample_s / divisor,
            self.update_s / divisor,
        )


@dataclass(frozen=True, slots=True)
class RecentActivity:
    """The last ten seconds or so: `window_s` says how many. Idle time counts in the rates."""

    window_s: float = 0.0
    num_steps: int = 0
    prefill_tokens_per_s: float = 0.0
    generated_tokens_per_s: float = 0.0
    mean_phases: PhaseTimes = field(default_factory=PhaseTimes)


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """A snapshot. Counts without a time are of now; `total_…` only grow; `memory` is as it was when the
    model had been loaded.

    `total_generated_tokens` were drawn; `total_discarded_tokens` of them hooks threw away, and
    `total_injected_tokens` are what they put in instead, computed among `total_prefill_tokens` but for lone
    ones. `num_cells_used` counts the distinct KV cells of what runs: those that several sequences share
    count once. `cache` tells of the cells that nobody uses now, `cold` of what is kept outside of them.
    `last_step_ts` (monotonic seconds) and `total_steps` move while something that is not held has work,
    `total_turns` of the loop also while there is none (watchdog.py). `total_integrity_faults`: how often
    the books were found not to agree.
    """

    is_alive: bool
    lanes: LaneStatistics
    memory: tuple[DeviceMemory, ...] = ()
    num_cells: int = 0
    num_cells_used: int = 0
    num_prefilling: int = 0
    num_decoding: int = 0
    num_preempted: int = 0
    num_waiting_for_prefix: int = 0
    num_held: int = 0
    total_steps: int = 0
    total_failed_steps: int = 0
    total_sequences: int = 0
    total_failed_sequences: int = 0
    total_cancelled_sequences: int = 0
    total_preemptions: int = 0
    total_prefill_tokens: int = 0
    total_generated_tokens: int = 0
    total_injected_tokens: int = 0
    total_discarded_tokens: int = 0
    total_drafted_tokens: int = 0
    total_accepted_tokens: int = 0
    total_turns: int = 0
    total_integrity_faults: int = 0
    last_step_ts: float = 0.0
    max_step_s: float = 0.0
    total_phases: PhaseTimes = field(default_factory=PhaseTimes)
    last_phases: PhaseTimes = field(default_factory=PhaseTimes)
    recent: RecentActivity = field(default_factory=RecentActivity)
    cache: PrefixCacheStatistics = field(default_factory=PrefixCacheStatistics)
    cold: ColdPrefixStatistics = field(default_factory=ColdPrefixStatistics)

    @property
    def num_cells_cached(self) -> int:
        """Cells that are kept for later prompts only."""
        return self.cache.num_cells

    @property
    def num_runnable(self) -> int:
        """Sequences that a step could compute now."""
        return self.num_prefilling + self.num_decoding

    @property
    def is_idle(self) -> bool:
        return self.lanes.num_used == 0
