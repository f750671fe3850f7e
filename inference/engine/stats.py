"""What the engine is doing, as numbers that any thread may read at any time."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.domain.cache_affinity import PrefixCacheStatistics
from inference.engine.lanes import LaneStatistics


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """A snapshot. Counts without a time are of now; `total_…` only grow.

    `num_cells_used` counts the distinct KV cells of what runs: those that several sequences share
    count once. `cache` tells of the cells that nobody uses now. `last_step_ts` (monotonic seconds) and
    `total_steps` move while there is work: an engine that is alive, has sequences that are not
    held and does not step is stuck.
    """

    is_alive: bool
    lanes: LaneStatistics
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
    last_step_ts: float = 0.0
    cache: PrefixCacheStatistics = field(default_factory=PrefixCacheStatistics)

    @property
    def num_cells_cached(self) -> int:
        """Cells that are kept for later prompts only."""
        return self.cache.num_cells

    @property
    def is_idle(self) -> bool:
        return self.lanes.num_used == 0
