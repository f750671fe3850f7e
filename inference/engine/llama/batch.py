"""The arrays of one `llama_batch`, wrapped once and filled again in every step."""

from __future__ import annotations

import ctypes

import llama_cpp
import numpy as np

from inference.engine.plan import StepPlan
from inference.engine.sequence import TokenArray
from inference.engine.sequence_media import EmbeddingArray

_INT32_P = ctypes.POINTER(ctypes.c_int32)
_INT32_PP = ctypes.POINTER(_INT32_P)
_INT8_P = ctypes.POINTER(ctypes.c_int8)
_FLOAT_P = ctypes.POINTER(ctypes.c_float)


class LlamaBatch:
    """Room for `capacity` tokens, each of one sequence.

    Filling an element of a ctypes array costs 1 µs; copying a slice of a numpy array costs as much
    for 500. `struct` points into arrays that this object owns (and those embeddings that it was filled
    with last, of `embedding_width` numbers a row), so it must never be given to `llama_batch_free`.
    """

    def __init__(self, capacity: int, *, embedding_width: int = 0) -> None:
        self.capacity = capacity
        self.num_outputs = 0
        self.is_causal = True
        self._embedding_width = embedding_width
        self._embeddings: EmbeddingArray | None = None
        self._token_ids = np.zeros(capacity, dtype=np.int32)
        # Embeddings have four each in models with places in a plane, token ids one.
        self._positions = np.zeros(4 * capacity, dtype=np.int32)
        self._num_sequences = np.ones(capacity, dtype=np.int32)
        self._sequence_ids = np.zeros(capacity, dtype=np.int32)
        self._is_output = np.zeros(capacity, dtype=np.int8)
        # int32 **: token i belongs to the one sequence at _sequence_ids[i].
        addresses = self._sequence_ids.ctypes.data + 4 * np.arange(capacity + 1, dtype=np.uint64)
        self._sequence_pointers = addresses.astype(np.uint64)
        self._token_pointer = self._token_ids.ctypes.data_as(_INT32_P)
        self.struct = llama_cpp.llama_batch(
            0,
            self._token_pointer,
            None,
            self._positions.ctypes.data_as(_INT32_P),
            self._num_sequences.ctypes.data_as(_INT32_P),
            self._sequence_pointers.ctypes.data_as(_INT32_PP),
            self._is_output.ctypes.data_as(_INT8_P),
        )

    @property
    def num_tokens(self) -> int:
        return int(self.struct.n_tokens)

    def fill(self, plan: StepPlan, *, is_repeated: bool = False) -> None:
        """Copy the rows of a plan; of the same plan again, with other tokens at other positions, only
        these. Raises ValueError for more tokens than there is room, and for embeddings of another width:
        llama.cpp would end the process."""
        num_tokens = plan.num_tokens
        if not 0 < num_tokens <= self.capacity:
            raise ValueError(f"a batch of {num_tokens} tokens does not fit {self.capacity}")
        self._token_ids[:num_tokens] = plan.token_ids
        if plan.places is None:
            self._positions[:num_tokens] = plan.positions
        else:
            self._positions[: 4 * num_tokens] = plan.places.reshape(-1)
        if is_repeated:
            return
        self._set_embeddings(plan.embeddings, num_tokens)
        self.is_causal = plan.is_causal
        self._sequence_ids[:num_tokens] = plan.sequence_ids
        self._is_output[:num_tokens] = plan.is_output
        self.struct.n_tokens = num_tokens
        self.num_outputs = plan.num_outputs

    def _set_embeddings(self, rows: EmbeddingArray | None, num_tokens: int) -> None:
        """A batch has token ids or embeddings; the other pointer is null."""
        if rows is None:
            self._embeddings = None
            self.struct.token, self.struct.embd = self._token_pointer, None
            return
        if rows.shape != (num_tokens, self._embedding_width) or not num_tokens:
            raise ValueError(
                f"embeddings of {rows.shape}, where {(num_tokens, self._embedding_width)} are wanted"
            )
        self._embeddings = np.ascontiguousarray(rows, dtype=np.float32)
        self.struct.token, self.struct.embd = None, self._embeddings.ctypes.data_as(_FLOAT_P)

    def fill_for_embeddings(
        self, token_ids: TokenArray, positions: TokenArray, sequence_ids: TokenArray
    ) -> None:
        """Copy rows (int32, one for each token) of a context that pools all of them. Raises ValueError for
        more than there is room."""
        num_tokens = len(token_ids)
        if not 0 < num_tokens <= self.capacity:
            raise ValueError(f"a batch of {num_tokens} tokens does not fit {self.capacity}")
        self._token_ids[:num_tokens] = token_ids
        self._positions[:num_tokens] = positions
        self._sequence_ids[:num_tokens] = sequence_ids
        self._is_output[:num_tokens] = 1
        self.struct.n_tokens = num_tokens
        self.num_outputs = num_tokens
