"""What a context has computed of a text, as bytes that can be kept elsewhere and put back.

llama.cpp copies whole sequences only. Where a memory can be cut, the part that is wanted gets a second name
for a moment, under which it is the whole.
"""

from __future__ import annotations

from inference.engine.hardware import HardwareConfig
from inference.engine.host_tier import StateArray
from inference.engine.llama.context import LlamaContext
from inference.engine.llama.model import LlamaModel

# States go in pieces of so many tokens: of a prefix, half of that is lost at its end, and each piece costs
# a few calls. docs/performance.md
NUM_PIECE_TOKENS = 64
MIN_PIECE_TOKENS = 16


class LlamaStates:
    """Of one context, and of its thread. `can_be_cut`: of a text's memory the beginning alone can be kept;
    otherwise states are good for exactly the tokens that they were made of."""

    def __init__(
        self, context: LlamaContext, model: LlamaModel, hardware: HardwareConfig, *, can_be_cut: bool
    ) -> None:
        self._context = context
        self._model = model
        self._hardware = hardware
        self._can_be_cut = can_be_cut

    @property
    def num_piece_tokens(self) -> int:
        """Of what parts a state goes in; 0: only as a whole, or not at all."""
        if self._context.scratch_id < 0 or not self._can_be_cut:
            return 0
        return piece_tokens(self._model.window_tokens)

    @property
    def origin(self) -> str:
        """All that a state depends on but its tokens."""
        hardware = self._hardware
        # Without flash attention V lies the other way round; a window decides what is left out.
        return (
            f"{self._model.fingerprint}, K {hardware.key_type.value}, V {hardware.value_type.value}, "
            f"flash attention {hardware.flash_attention.value}, full window {hardware.has_full_window}, "
            f"layers on GPUs {hardware.gpu_layers}"
        )

    def save(self, sequence_id: int, begin: int, end: int) -> StateArray | None:
        """As ModelRunner's `save_state`."""
        context, scratch_id = self._context, self._context.scratch_id
        if not self._can_be_cut:
            is_whole = begin == 0 and context.last_position(sequence_id) + 1 == end
            return context.save(sequence_id) if is_whole else None
        if context.last_position(sequence_id) + 1 < end or not context.has_all_from(sequence_id, begin):
            return None
        # llama.cpp writes whole sequences: this one has the part as its whole.
        context.copy(sequence_id, scratch_id, end, begin=begin)
        try:
            return context.save(scratch_id)
        finally:
            context.remove(scratch_id)

    def load(self, sequence_id: int, begin: int, end: int, data: StateArray) -> bool:
        """As ModelRunner's `load_state`."""
        context, scratch_id = self._context, self._context.scratch_id
        if context.last_position(sequence_id) + 1 != begin:
            return False
        if not self._can_be_cut:
            if context.load(sequence_id, data) and context.last_position(sequence_id) + 1 == end:
                return True
            context.remove(sequence_id)
            return False
        try:
            if not context.load(scratch_id, data) or context.last_position(scratch_id) + 1 < end:
                return False
            context.copy(scratch_id, sequence_id, end, begin=begin)
        finally:
            context.remove(scratch_id)
        if context.last_position(sequence_id) + 1 == end:
            return True
        context.remove(sequence_id, begin)
        return False

    def __repr__(self) -> str:
        return f"<LlamaStates of {self._context!r}, {'in pieces' if self.num_piece_tokens else 'whole'}>"


def piece_tokens(window_tokens: int) -> int:
    """Tokens of a piece of state. llama.cpp leaves out what is beyond the window of a state's last token
    (0: no window), so a piece must lie within one; models with blocks of attention have windows that are
    powers of two."""
    if not window_tokens or window_tokens >= NUM_PIECE_TOKENS:
        return NUM_PIECE_TOKENS
    num_tokens: int = 1 << (window_tokens.bit_length() - 1)
    return num_tokens if num_tokens >= MIN_PIECE_TOKENS else 0
