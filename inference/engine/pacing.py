"""How many prompt tokens a step may take before others notice.

A batch of 512 prompt tokens takes 20 ms on a GPU and 3 s on two cores, and for that time every
stream stands still and nobody new is let in. So the size of a step's prefill is not a constant: it
follows from how long such steps took.
"""

from __future__ import annotations

from inference.engine.config import EngineConfig

# How much one step counts against those before it. A third forgets a disturbed step in about five.
WEIGHT = 0.3
# Steps with fewer prompt tokens than this say little about what a prompt token costs.
MIN_OBSERVED_TOKENS = 8
# Before anything was measured: small enough for a slow machine, not silly on a fast one.
INITIAL_TOKENS = 128


class PrefillPacer:
    """Keeps steps with prompt tokens near `target_step_s`, by the measured seconds per token.

    Where small batches cost as much as larger ones (weights are read once for all rows), the
    measured cost of a token falls as the budget grows, so the budget settles at the size whose step
    takes the target, not below it.
    """

    def __init__(
        self, *, target_step_s: float, min_tokens: int, max_tokens: int, max_beside_decodes: int
    ) -> None:
        self._target_step_s = target_step_s
        self._min_tokens = min_tokens
        self._max_tokens = max_tokens
        self._max_beside_decodes = max_beside_decodes
        self._token_s: float | None = None

    @classmethod
    def of(cls, config: EngineConfig) -> PrefillPacer:
        return cls(
            target_step_s=config.target_step_s,
            min_tokens=config.min_prefill_tokens,
            max_tokens=config.max_batch_tokens,
            max_beside_decodes=config.max_prefill_tokens_beside_decodes,
        )

    def budget(self, num_decodes: int) -> int:
        """Prompt tokens that fit beside `num_decodes` decoding sequences; at least 1."""
        if self._token_s is None:
            wanted = INITIAL_TOKENS
        else:
            wanted = int(self._target_step_s / self._token_s) - num_decodes
        ceiling = self._max_tokens - num_decodes
        if num_decodes:
            ceiling = min(ceiling, self._max_beside_decodes)
        return max(1, min(max(wanted, self._min_tokens), ceiling))

    def observe(self, *, num_tokens: int, num_prefill_tokens: int, duration_s: float) -> None:
        """A step of `num_tokens` tokens, of which `num_prefill_tokens` of prompts, took `duration_s`."""
        if num_prefill_tokens < MIN_OBSERVED_TOKENS or duration_s <= 0:
            return
        token_s = duration_s / num_tokens
        if self._token_s is None:
            self._token_s = token_s
        else:
            self._token_s += WEIGHT * (token_s - self._token_s)

    def __repr__(self) -> str:
        if self._token_s is None:
            return "<PrefillPacer, nothing measured>"
        return f"<PrefillPacer {self._token_s * 1000:.2f} ms a token>"
