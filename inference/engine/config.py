"""What an operator may choose about the engine, checked before a model is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass

# LLAMA_MAX_SEQ: a context with more sequences is refused by llama.cpp.
MAX_LANES = 256


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Sizes of one engine. Raises ValueError with one sentence that names the field at fault.

    `num_lanes`: sequences that may be in the batch at the same time.
    `num_cells`: KV cells shared by all lanes; a cell holds one token of one sequence.
    `max_batch_tokens`: tokens of one `llama_decode`; an upper bound of a step without decodes.
    `max_ubatch_tokens`: tokens that llama.cpp computes at once inside of it.
    `max_prefill_tokens_beside_decodes`: prompt tokens in a step that also decodes.
    `target_step_s`: how long a step with prompt tokens should take; the pace of prefill follows
    from what was measured (pacing.py), so that a slow machine does not freeze its streams.
    `min_prefill_tokens`: prompt tokens a step always may have, however slow the machine is.
    `num_threads`: of llama.cpp; 0 takes the cores that this process may use.
    `resume_headroom_tokens`: free cells, for each running sequence, that must be left when a
    preempted sequence comes back, so that it is not preempted again in the next step.
    """

    num_lanes: int = 16
    num_cells: int = 16_384
    max_batch_tokens: int = 512
    max_ubatch_tokens: int = 512
    max_prefill_tokens_beside_decodes: int = 256
    target_step_s: float = 0.2
    min_prefill_tokens: int = 32
    num_threads: int = 0
    resume_headroom_tokens: int = 32

    def __post_init__(self) -> None:
        if not 1 <= self.num_lanes <= MAX_LANES:
            raise ValueError(f"num_lanes must be between 1 and {MAX_LANES}, not {self.num_lanes}")
        if self.num_cells < 256:
            raise ValueError(f"num_cells must be at least 256, not {self.num_cells}")
        if self.max_batch_tokens < max(self.num_lanes, 32):
            raise ValueError(
                "max_batch_tokens must be at least 32 and hold one token for each lane "
                f"({self.num_lanes}), not {self.max_batch_tokens}"
            )
        if self.max_ubatch_tokens < 1:
            raise ValueError(f"max_ubatch_tokens must be at least 1, not {self.max_ubatch_tokens}")
        if not 1 <= self.min_prefill_tokens <= self.max_prefill_tokens_beside_decodes:
            raise ValueError(
                "min_prefill_tokens must be between 1 and max_prefill_tokens_beside_decodes "
                f"({self.max_prefill_tokens_beside_decodes}), not {self.min_prefill_tokens}"
            )
        if self.target_step_s <= 0:
            raise ValueError(f"target_step_s must be above 0, not {self.target_step_s}")
        if self.num_threads < 0:
            raise ValueError(f"num_threads must be 0 (choose) or more, not {self.num_threads}")
        if self.resume_headroom_tokens < 1:
            raise ValueError(f"resume_headroom_tokens must be at least 1, not {self.resume_headroom_tokens}")

    @property
    def effective_threads(self) -> int:
        """Threads that llama.cpp gets: more than there are cores would make every step wait."""
        if self.num_threads:
            return self.num_threads
        # Not every system lets a process ask which cores are its own.
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
