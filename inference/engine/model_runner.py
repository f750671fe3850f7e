"""What the engine needs of a model: the seam between scheduling and llama.cpp."""

from __future__ import annotations

from typing import Protocol

from inference.domain.requests import GenerationRequest
from inference.engine.drafting.draft_model import DraftModel
from inference.engine.host_tier import StateArray
from inference.engine.memory_plan import DeviceMemory
from inference.engine.plan import StepPlan, StepResult


class ModelRunner(Protocol):
    """Computes batches. Made, used and closed by the engine thread; only `interrupt` is for others.

    A sequence id is opened before its first batch. After its last one it is closed, or first kept (to
    be copied from) and then closed.
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
    def max_outputs(self) -> int:
        """Rows of logits that a batch may have; at least one."""
        ...

    @property
    def end_token_ids(self) -> frozenset[int]:
        """The tokens with which the model ends an answer."""
        ...

    @property
    def control_token_ids(self) -> frozenset[int]:
        """Those that end an answer, mark roles, or are no text in any other way."""
        ...

    @property
    def max_sequence_tokens(self) -> int:
        """Prompt and answer of one sequence: as many as the model was trained for, and at most all cells."""
        ...

    @property
    def memory(self) -> tuple[DeviceMemory, ...]:
        """What the model takes on each device, as it was after loading; from any thread."""
        ...

    @property
    def can_share_prefixes(self) -> bool:
        """Whether a part of a sequence's cells can be copied and removed; not so where the memory of
        a text is one state (recurrent models)."""
        ...

    @property
    def draft_model(self) -> DraftModel | None:
        """The smaller model that drafts for this one."""
        ...

    def open(self, sequence_id: int, request: GenerationRequest) -> None:
        """Prepare to draw tokens for a new sequence: sampling parameters and random state."""
        ...

    def run(self, plan: StepPlan) -> StepResult:
        """Compute one batch and draw the wanted tokens; say how likely they were and how sure the
        model was where a sequence asks. May raise: the step then counts as FAILED."""
        ...

    def inject(self, sequence_id: int, token_ids: tuple[int, ...], *, takes_back: bool) -> None:
        """These follow what was drawn for a sequence, or, where it `takes_back`, stand instead of the last
        token that was: penalties and counts go by that. Its random state stays. Nothing is computed."""
        ...

    def rewind(self, sequence_id: int, max_tokens: int) -> int:
        """Keep the cells of at most the first `max_tokens` tokens; returns how many are kept.

        0 frees all of them, for a sequence that is computed again later. Its random state stays.
        """
        ...

    def copy_prefix(self, source_id: int, target_id: int, num_tokens: int) -> bool:
        """Let a sequence without cells have those of the first `num_tokens` tokens of another, which
        may be computed further at any time. False where that cannot be: it then has none."""
        ...

    @property
    def num_piece_tokens(self) -> int:
        """Tokens of the parts in which states can be saved and loaded; 0 where they cannot. Where prefixes
        cannot be shared, states are saved and loaded as a whole, from the first token to the last."""
        ...

    @property
    def state_origin(self) -> str:
        """All that a state depends on but its tokens: one that was saved under another name must not be
        loaded."""
        ...

    def save_state(self, sequence_id: int, begin: int, end: int) -> StateArray | None:
        """What the cells of the tokens [begin, end) hold, to be loaded at the same place of a sequence
        that has the same tokens up to `end`; None where it cannot be had."""
        ...

    def load_state(self, sequence_id: int, begin: int, end: int, data: StateArray) -> bool:
        """Give a sequence, which has cells of its first `begin` tokens, those up to `end`, from a state
        that was saved for these tokens or for a piece that they are a part of. It must be one that
        `save_state` returned, unchanged. False where that cannot be; the sequence is then as before."""
        ...

    def keep_sequence(self, sequence_id: int, num_tokens: int) -> bool:
        """No more tokens are drawn, but the cells of the first `num_tokens` stay, and only they, to be
        copied from until `close_sequence`. False where they are not there."""
        ...

    def close_sequence(self, sequence_id: int) -> None:
        """Free everything that the sequence has."""
        ...

    def interrupt(self) -> None:
        """Make a running batch stop soon, and every later one at once. From any thread."""
        ...

    def close(self) -> None:
        """Free the model. Nothing else may be called afterwards."""
        ...
