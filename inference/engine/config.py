"""What an operator may choose about the engine, checked before a model is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from inference.engine.hardware import HardwareConfig

# LLAMA_MAX_SEQ: a context with more sequences is refused by llama.cpp.
MAX_LANES = 256
# So many rows of logits there are for guessed tokens however few sequences there can be.
MIN_OUTPUTS = 16


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
    `num_threads`: of llama.cpp, for a batch of one token; 0 takes the cores that this process may use.
    `num_batch_threads`: for larger batches (prompts, and several streams at once); 0: as many.
    `num_media_threads`: for pictures and sounds, beside all of this; 0: half of `num_threads`.
    `resume_headroom_tokens`: free cells, for each running sequence, that must be left when a
    preempted sequence comes back, so that it is not preempted again in the next step.
    `has_prefix_cache`: sequences share the cells of equal beginnings (prefix_cache.py), those that
    run and those that ended, of which at most `max_cached_entries` are kept, each of at least
    `min_cached_tokens` tokens, together in at most `max_cached_cells` cells (0: a quarter of all): cells
    that nobody uses make every step a little slower.
    `max_embedding_tokens`: of one text that is embedded; 0 chooses by the kind of model (pooling.py).
    `host_cache_bytes`: memory of the machine for what the cells have no room for (cold_prefixes.py); 0:
    it is computed again. `disk_cache_dir`, `disk_cache_bytes`: a folder for what that has no room for
    (disk_tier.py).
    `hardware`: devices, KV types and how weights are loaded.
    """

    num_lanes: int = 16
    num_cells: int = 16_384
    max_batch_tokens: int = 512
    max_ubatch_tokens: int = 512
    max_prefill_tokens_beside_decodes: int = 256
    target_step_s: float = 0.2
    min_prefill_tokens: int = 32
    num_threads: int = 0
    num_batch_threads: int = 0
    num_media_threads: int = 0
    resume_headroom_tokens: int = 32
    has_prefix_cache: bool = True
    max_cached_entries: int = 64
    min_cached_tokens: int = 64
    max_cached_cells: int = 0
    max_embedding_tokens: int = 0
    host_cache_bytes: int = 0
    disk_cache_dir: str = ""
    disk_cache_bytes: int = 0
    hardware: HardwareConfig = field(default_factory=HardwareConfig)

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
        for name in (
            "disk_cache_bytes",
            "host_cache_bytes",
            "max_embedding_tokens",
            "num_batch_threads",
            "num_media_threads",
            "num_threads",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if not 1 <= self.min_prefill_tokens <= self.max_prefill_tokens_beside_decodes:
            raise ValueError(
                "min_prefill_tokens must be between 1 and max_prefill_tokens_beside_decodes "
                f"({self.max_prefill_tokens_beside_decodes}), not {self.min_prefill_tokens}"
            )
        if self.target_step_s <= 0:
            raise ValueError(f"target_step_s must be above 0, not {self.target_step_s}")
        if self.resume_headroom_tokens < 1:
            raise ValueError(f"resume_headroom_tokens must be at least 1, not {self.resume_headroom_tokens}")
        if not 0 <= self.max_cached_entries <= MAX_LANES:
            raise ValueError(
                f"max_cached_entries must be between 0 and {MAX_LANES}, not {self.max_cached_entries}"
            )
        if self.min_cached_tokens < 1:
            raise ValueError(f"min_cached_tokens must be at least 1, not {self.min_cached_tokens}")
        if not 0 <= self.max_cached_cells <= self.num_cells:
            raise ValueError(
                f"max_cached_cells must be between 0 (a quarter of all) and num_cells ({self.num_cells}), "
                f"not {self.max_cached_cells}"
            )

    @property
    def num_sequences(self) -> int:
        """KV sequences of the context: one for each lane and each cached entry. llama.cpp knows 256
        at most, and ends the process where there are more than tokens in a batch."""
        if not self.has_prefix_cache:
            return self.num_lanes
        most = min(MAX_LANES, self.max_batch_tokens) - self.has_scratch_sequence
        return min(self.num_lanes + self.max_cached_entries, most)

    @property
    def has_scratch_sequence(self) -> bool:
        """Whether the context has one more than `num_sequences`, through which parts of states go to and
        from host memory."""
        has_place = self.num_lanes < min(MAX_LANES, self.max_batch_tokens)
        return self.has_prefix_cache and self.host_cache_bytes > 0 and has_place

    @property
    def max_outputs(self) -> int:
        """Rows of logits that a batch may have: one for each lane, and behind guessed tokens as many as
        there is room for. Fewer than there are KV sequences would end the process."""
        return max(self.num_sequences, MIN_OUTPUTS)

    @property
    def effective_max_cached_cells(self) -> int:
        return self.max_cached_cells or self.num_cells // 4

    @property
    def effective_threads(self) -> int:
        """Threads that llama.cpp gets: more than there are cores would make every step wait."""
        if self.num_threads:
            return self.num_threads
        # Not every system lets a process ask which cores are its own.
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    @property
    def effective_batch_threads(self) -> int:
        return self.num_batch_threads or self.effective_threads

    @property
    def effective_media_threads(self) -> int:
        """Streams go on while a picture is read, so that it does not get all of the cores."""
        return self.num_media_threads or max(1, self.effective_threads // 2)

    @property
    def max_tokens_at_once(self) -> int:
        """Tokens that llama.cpp can let see each other in both directions."""
        return min(self.max_ubatch_tokens, self.max_batch_tokens)
