"""A `llama_context`: KV cells and the computation over them, for one thread.

llama.cpp answers many mistakes by ending the process (a batch that is too long, too many outputs, a
sequence that does not exist). Each of them is an exception here, raised before the call.
"""

from __future__ import annotations

import ctypes
import logging
from enum import IntEnum
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from inference.domain.adapters import AdapterSet
from inference.engine.config import EngineConfig
from inference.engine.host_tier import StateArray
from inference.engine.llama.batch import LlamaBatch
from inference.engine.llama.devices import list_gpus
from inference.engine.llama.library import fast_function, log_bridge
from inference.engine.llama.memory import available_bytes
from inference.engine.llama.memory_use import used_memory
from inference.engine.llama.model import LlamaModel
from inference.engine.llama.parameters import context_params
from inference.engine.load_error import ModelLoadError

logger = logging.getLogger(__name__)

LogitsArray = NDArray[np.float32]


class DecodeStatus(IntEnum):
    """What `llama_decode` returns (llama-context.cpp)."""

    OK = 0
    NO_CELLS = 1
    """Nothing was changed."""
    ABORTED = 2
    """What was computed before stays."""
    INVALID = -1
    """A token, sequence or position that cannot be; nothing was changed."""
    NO_MEMORY = -2
    COMPUTE_FAILED = -3
    """Like ABORTED."""


class LlamaContext:
    """Made, used and freed by one thread; only `interrupt` is for others.

    One unified pool of cells, so that any sequence may take any free cell and a mixed batch is
    computed at once. Raises ModelLoadError where the context cannot be made.
    """

    def __init__(self, model: LlamaModel, config: EngineConfig) -> None:
        planned = model.plan_context(config)
        # Where a sequence is one large state, further ones would cost memory and share nothing.
        has_state = llama_cpp.llama_model_is_recurrent(model.pointer) or llama_cpp.llama_model_is_hybrid(
            model.pointer
        )
        # Tokens that layers with a sliding window see back; 0: there are none.
        self._window: int = llama_cpp.llama_model_n_swa(model.pointer)
        self.keeps_window_only: bool = self._window > 0 and not config.hardware.has_full_window
        is_whole = has_state or self.keeps_window_only
        num_sequences = config.num_lanes if is_whole else config.num_sequences
        # Parts of a sequence's state come and go through one that nobody else knows.
        self.scratch_id = num_sequences if config.has_scratch_sequence and not is_whole else -1
        num_sequences += self.scratch_id >= 0
        max_outputs = num_sequences if has_state else max(num_sequences, config.max_outputs)
        params = context_params(config, num_sequences, max_outputs)
        self._model = model
        self._num_sequences = num_sequences
        self.max_outputs = max_outputs
        self._stop_flag, params.abort_callback, params.abort_callback_data = make_stop_flag()
        with log_bridge.buffers() as buffers:
            pointer: int | None = llama_cpp.llama_init_from_model(model.pointer, params)
        if not pointer:
            raise ModelLoadError(
                f"llama.cpp cannot make a context of {config.num_cells} KV cells for {model.path.name} "
                "(see the log); a smaller one (SKIPPY_CONTEXT) may fit."
            )
        # Its words may change with its version.
        self.memory = (
            used_memory([*model.buffers, *buffers], list_gpus(), available_bytes()) if buffers else planned
        )
        logger.info("Memory of %s: %s", model.path.name, "; ".join(map(str, self.memory)))
        self._params = params  # holds the callback
        self._pointer = pointer
        self._memory = llama_cpp.llama_get_memory(pointer)
        if not self._memory:
            llama_cpp.llama_free(pointer)
            raise ModelLoadError(
                f"{model.path.name} keeps no context: it is not a model that generates text."
            )
        self._has_state: bool = has_state
        self._num_vocabulary = model.tokenizer.num_tokens
        self.num_cells: int = llama_cpp.llama_n_ctx(pointer)
        self.max_batch_tokens: int = llama_cpp.llama_n_batch(pointer)
        self.max_ubatch_tokens: int = llama_cpp.llama_n_ubatch(pointer)
        self.embedding_width: int = llama_cpp.llama_model_n_embd_inp(model.pointer)
        self._rows: LogitsArray | None = None
        self._rows_address = 0
        self._may_run_on: bool = llama_cpp.llama_supports_gpu_offload()
        # Everything is computed when it is called: it only looks up an address.
        self._get_logits = fast_function("llama_get_logits", [ctypes.c_void_p], ctypes.c_void_p)

    def decode(self, batch: LlamaBatch) -> DecodeStatus:
        """Compute a batch and wait for it; the interpreter is free for other threads meanwhile."""
        if not 0 < batch.num_tokens <= self.max_batch_tokens:
            raise ValueError(f"{batch.num_tokens} tokens, at most {self.max_batch_tokens} fit a batch")
        if batch.num_outputs > self.max_outputs:
            raise ValueError(f"{batch.num_outputs} outputs, at most {self.max_outputs} fit a batch")
        pointer = self._pointer
        if batch.is_causal:
            status: int = llama_cpp.llama_decode(pointer, batch.struct)
        else:
            status = self._decode_both_ways(batch)
        if status == 0:
            if self._may_run_on:
                # A GPU may still be at work: wait here, where the interpreter is free for others.
                llama_cpp.llama_synchronize(pointer)
            return DecodeStatus.OK
        try:
            return DecodeStatus(status)
        except ValueError:
            return DecodeStatus.COMPUTE_FAILED

    def _decode_both_ways(self, batch: LlamaBatch) -> int:
        """Let the tokens of a batch see each other in both directions, as those of a picture do."""
        if batch.num_tokens > self.max_ubatch_tokens:
            raise ValueError(f"{batch.num_tokens} tokens, {self.max_ubatch_tokens} are computed at once")
        llama_cpp.llama_set_causal_attn(self._pointer, False)
        try:
            status: int = llama_cpp.llama_decode(self._pointer, batch.struct)
        finally:
            llama_cpp.llama_set_causal_attn(self._pointer, True)
        return status

    def set_adapters(self, adapters: AdapterSet) -> None:
        """Compute with these from the next batch on. Raises ValueError where one is not there."""
        self._model.adapters.apply(self._pointer, adapters)

    def logits(self, num_outputs: int) -> LogitsArray:
        """Raw logits of the last batch, (num_outputs, vocabulary), one row for each wanted token in
        batch order. A writable view into llama.cpp's memory, valid until the next `decode`."""
        if not 0 < num_outputs <= self.max_outputs:
            raise ValueError(f"{num_outputs} rows of logits, at most {self.max_outputs}")
        address: int | None = self._get_logits(self._pointer)
        if not address:
            raise RuntimeError("llama.cpp has no logits")
        if self._rows is None or address != self._rows_address:
            # The buffer has a row for every sequence at least, and moves only when it grows.
            rows = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
            self._rows = np.ctypeslib.as_array(rows, (self.max_outputs, self._num_vocabulary))
            self._rows_address = address
        return self._rows[:num_outputs]

    # -- memory ---------------------------------------------------------------------------------

    def remove(self, sequence_id: int, begin: int = 0, end: int = -1) -> bool:
        """Free the cells at positions [begin, end) of a sequence, -1: to its end. False where that cannot
        be, and then nothing is: a text that is one state can only be removed as a whole, and of a sliding
        window those may be gone that the tokens before `begin` have to see."""
        self._check_sequence(sequence_id)
        if begin > 0 and not self.has_all_before(sequence_id, begin):
            return False
        is_removed: bool = llama_cpp.llama_memory_seq_rm(self._memory, sequence_id, begin, end)
        return is_removed

    def copy(self, source_id: int, target_id: int, num_positions: int, *, begin: int = 0) -> None:
        """Give the cells at positions [begin, num_positions) of a sequence to another one, too. Nothing is
        moved; under the unified pool it is a mark on each cell. Recurrent memory ignores the range."""
        self._check_sequence(source_id)
        self._check_sequence(target_id)
        llama_cpp.llama_memory_seq_cp(self._memory, source_id, target_id, begin, num_positions)

    def last_position(self, sequence_id: int) -> int:
        """The highest position with a cell, -1 where the sequence has none."""
        self._check_sequence(sequence_id)
        position: int = llama_cpp.llama_memory_seq_pos_max(self._memory, sequence_id)
        return position

    def has_all_before(self, sequence_id: int, position: int) -> bool:
        """Whether what a token at `position` has to see of a sequence is there in all layers. What a
        sliding window has left behind llama.cpp gives to others, also where there are empty cells and
        all are to be kept (llama-kv-cache.cpp, `find_slot`), from the lowest position on."""
        return self.has_all_from(sequence_id, position - self._window + 1)

    def has_all_from(self, sequence_id: int, position: int) -> bool:
        """Whether the cells of a sequence from this position on are there in all layers."""
        if not self._window:
            return True
        first: int = llama_cpp.llama_memory_seq_pos_min(self._memory, sequence_id)
        return first <= max(0, position)

    @property
    def is_moved_by_batches(self) -> bool:
        """Whether a batch moves the memory of sequences that are not in it, and one that is broken off
        leaves nothing to be believed. So it is with states (llama-memory-recurrent.cpp, `find_slot`): they
        change places before anything is computed, and keep the positions that were to come."""
        return self._has_state

    def save(self, sequence_id: int) -> StateArray | None:
        """The state of a sequence as llama.cpp writes it; None where it cannot."""
        self._check_sequence(sequence_id)
        num_bytes: int = llama_cpp.llama_state_seq_get_size(self._pointer, sequence_id)
        if not num_bytes:
            return None
        data: StateArray = np.empty(num_bytes, dtype=np.uint8)
        num_written: int = llama_cpp.llama_state_seq_get_data(
            self._pointer, _bytes_at(data), num_bytes, sequence_id
        )
        return data if num_written == num_bytes else None

    def load(self, sequence_id: int, data: StateArray) -> bool:
        """Put a state that `save` returned in the place of what a sequence has. False where it does not
        fit in; the sequence then has nothing."""
        self._check_sequence(sequence_id)
        num_read: int = llama_cpp.llama_state_seq_set_data(
            self._pointer, _bytes_at(data), len(data), sequence_id
        )
        if num_read == len(data):
            return True
        self.remove(sequence_id)
        return False

    def clear(self, *, wipes: bool = False) -> None:
        """Free all cells. `wipes`: overwrite them, too, since new states begin as 0 times what was there."""
        llama_cpp.llama_memory_clear(self._memory, wipes)

    def _check_sequence(self, sequence_id: int) -> None:
        if not 0 <= sequence_id < self._num_sequences:
            raise ValueError(f"there is no sequence {sequence_id}, only {self._num_sequences}")

    # -- endings --------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Make a running decode return ABORTED soon, and every later one at once. From any thread."""
        self._stop_flag[0] = b"\x01"

    def close(self) -> None:
        """Free the context, before its model. Later calls do nothing."""
        pointer, self._pointer = self._pointer, 0
        if pointer:
            self._rows = None
            llama_cpp.llama_free(pointer)

    def __repr__(self) -> str:
        return f"<LlamaContext {self.num_cells} cells, {self._num_sequences} sequences>"


def _bytes_at(data: StateArray) -> Any:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def make_stop_flag() -> tuple[Any, Any, Any]:
    """An abort callback that costs nothing: the flag, the callback, and its argument.

    It is asked after every node of the graph, thousands of times in a batch, so it must not enter
    Python. C's own `strlen` has the right shape: over a buffer of two bytes it says 0 (go on) while
    the first one is zero, and 1 (stop) once it is set.
    """
    flag = ctypes.create_string_buffer(2)
    strlen = ctypes.cast(ctypes.CDLL(None).strlen, llama_cpp.llama_cpp.ggml_abort_callback)
    return flag, strlen, ctypes.cast(flag, ctypes.c_void_p)
