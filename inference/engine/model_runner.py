"""What the engine needs of a model: the seam between scheduling and llama.cpp."""

from __future__ import annotations

from typing import Protocol

from inference.domain.requests import GenerationRequest
from inference.engine.plan import StepPlan, StepResult


class ModelRunner(Protocol):
    """Computes batches. Made, used and closed by the engine thread; only `interrupt` is for others.

    A sequence id is opened before its first batch and closed after its last, always in pairs.
    """

    @property
    def num_cells(self) -> int:
        """KV cells in all."""
        ...

    @property
    def num_vocabulary(self) -> int:
        """Valid token ids are 0 … this - 1."""
        ...

    @property
    def end_token_ids(self) -> frozenset[int]:
        """The tokens with which the model ends an answer."""
        ...

    def open(self, sequence_id: int, request: GenerationRequest) -> None:
        """Prepare to draw tokens for a new sequence: sampling parameters and random state."""
        ...

    def run(self, plan: StepPlan) -> StepResult:
        """Compute one batch and draw the wanted tokens. May raise: the step then counts as FAILED."""
        ...

    def rewind(self, sequence_id: int, max_tokens: int) -> int:
        """Keep the cells of at most the first `max_tokens` tokens; returns how many are kept.

        0 frees all of them, for a sequence that is computed again later. Its random state stays.
        """
        ...

    def close_sequence(self, sequence_id: int) -> None:
        """Free everything that the sequence had."""
        ...

    def interrupt(self) -> None:
        """Make a running batch stop soon, and every later one at once. From any thread."""
        ...

    def close(self) -> None:
        """Free the model. Nothing else may be called afterwards."""
        ...
