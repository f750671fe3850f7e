"""Texts to vectors, in a `llama_context` of its own beside the one that generates, or instead of it.

llama.cpp pools what one micro batch has of a sequence, so each text is in one micro batch as a whole. A
longer one is computed in parts where its tokens see only those before them: the mean of all is the mean
of the parts' means, each weighed by its length, and the last token is in the last part. Where every
token sees all of its text, nothing can be longer than a micro batch.

What llama.cpp would answer by ending the process (more tokens or sequences than the context has) is an
exception here, before the call.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from inference.engine.config import MAX_LANES, EngineConfig
from inference.engine.llama.batch import LlamaBatch
from inference.engine.llama.context import make_stop_flag
from inference.engine.llama.library import fast_function
from inference.engine.llama.model import LlamaModel
from inference.engine.llama.parameters import context_params
from inference.engine.load_error import ModelLoadError
from inference.engine.pooling import Pooling

logger = logging.getLogger(__name__)

FloatArray = NDArray[np.float32]

# Each sequence of a recurrent model is one large state.
MAX_STATES = 16


class LlamaEmbedder:
    """Implements engine.embedding_thread.Embedder; made, used and freed by one thread, but for `interrupt`.

    Raises ModelLoadError where the context cannot be made.
    """

    def __init__(self, model: LlamaModel, config: EngineConfig) -> None:
        sizes = model.embedding_sizes(config)
        model.check_embedding_fits(config, sizes)
        self.max_batch_tokens = sizes.max_batch_tokens
        self._pooling = model.pooling.effective
        has_state = llama_cpp.llama_model_is_recurrent(model.pointer) or llama_cpp.llama_model_is_hybrid(
            model.pointer
        )
        num_sequences = min(MAX_STATES if has_state else MAX_LANES, sizes.max_batch_tokens)
        params = context_params(config, num_sequences, sizes.max_batch_tokens)
        params.n_ctx = sizes.num_cells
        params.n_batch = params.n_ubatch = sizes.max_batch_tokens
        params.n_threads = params.n_threads_batch = config.effective_batch_threads
        params.embeddings = True
        params.pooling_type = int(self._pooling)
        self._stop_flag, params.abort_callback, params.abort_callback_data = make_stop_flag()
        self._params = params  # holds the callback
        # The model is not freed before the context, whoever asks for it.
        self._lifetime = ExitStack()
        self._lifetime.enter_context(model.lifetime)
        pointer: int | None = llama_cpp.llama_init_from_model(model.pointer, params)
        if not pointer:
            self._lifetime.close()
            raise ModelLoadError(
                f"llama.cpp cannot make a context for embeddings of {model.path.name} (see the log)."
            )
        self._pointer = pointer
        # None where nothing of a text is kept from one call to the next.
        self._memory: Any = llama_cpp.llama_get_memory(pointer) or None
        if sizes.can_part and self._memory is None:
            llama_cpp.llama_free(pointer)
            self._lifetime.close()
            raise ModelLoadError(
                f"{model.path.name} keeps no context, and nothing says that it only encodes."
            )
        self.can_part = sizes.can_part
        # One sequence is for the text that is computed in parts.
        self.max_batch_texts = num_sequences - 1 if self.can_part else num_sequences
        self._long_sequence = num_sequences - 1
        self._width: int = (
            llama_cpp.llama_model_n_cls_out(model.pointer)
            if self._pooling is Pooling.RANK
            else llama_cpp.llama_model_n_embd_out(model.pointer)
        )
        self._has_encoder: bool = llama_cpp.llama_model_has_encoder(model.pointer)
        self._batch = LlamaBatch(sizes.max_batch_tokens)
        self._get_row = fast_function(
            "llama_get_embeddings_seq", [ctypes.c_void_p, ctypes.c_int32], ctypes.c_void_p
        )
        self._long_sum = np.zeros(self._width, dtype=np.float32)

    def compute(self, texts: Sequence[Sequence[int]]) -> FloatArray:
        """float32 (number of texts, width), not normalised; (number of texts, 1) scores where the model
        ranks. At most `max_batch_texts` of them, of at most `max_batch_tokens` together. Raises RuntimeError
        where llama.cpp fails, and InterruptedError after `interrupt`."""
        if not 0 < len(texts) <= self.max_batch_texts:
            raise ValueError(f"{len(texts)} texts, at most {self.max_batch_texts} fit a batch")
        lengths = [len(text) for text in texts]
        if min(lengths) < 1:
            raise ValueError("a text without tokens has no embedding")
        token_ids = np.concatenate([np.asarray(text, dtype=np.int32) for text in texts])
        positions = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
        sequence_ids = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        try:
            self._run(token_ids, positions, sequence_ids)
            return self._rows(range(len(texts)))
        finally:
            self._forget_whole_texts(len(texts))

    def compute_part(self, part: Sequence[int], *, begin: int, is_last: bool) -> FloatArray | None:
        """Tokens from `begin` on of the one text that is longer than a batch; its row, float32 (1, width),
        after the last part. `begin` 0 gives up what was computed of another one. Raises as `compute`."""
        if not self.can_part:
            raise ValueError("this model computes each text at once")
        if not begin:
            self.forget_parts()
        token_ids = np.asarray(part, dtype=np.int32)
        positions = np.arange(begin, begin + len(part), dtype=np.int32)
        sequence_ids = np.full(len(part), self._long_sequence, dtype=np.int32)
        try:
            self._run(token_ids, positions, sequence_ids)
            row = self._rows([self._long_sequence])
        except BaseException:
            self.forget_parts()
            raise
        if self._pooling is Pooling.MEAN:
            self._long_sum += row[0] * len(part)
            row = np.divide(self._long_sum[None, :], begin + len(part), dtype=np.float32)
        if not is_last:
            return None
        self.forget_parts()
        return row

    def forget_parts(self) -> None:
        """Free the cells of a text that was computed in parts."""
        self._long_sum[:] = 0.0
        if self._memory is not None:
            llama_cpp.llama_memory_seq_rm(self._memory, self._long_sequence, -1, -1)

    def _forget_whole_texts(self, num_texts: int) -> None:
        if self._memory is None:
            return
        for sequence_id in range(num_texts):
            llama_cpp.llama_memory_seq_rm(self._memory, sequence_id, -1, -1)

    def _run(
        self, token_ids: NDArray[np.int32], positions: NDArray[np.int32], sequence_ids: NDArray[np.int32]
    ) -> None:
        if not 0 < len(token_ids) <= self.max_batch_tokens:
            raise ValueError(f"{len(token_ids)} tokens, at most {self.max_batch_tokens} fit a batch")
        self._batch.fill_for_embeddings(token_ids, positions, sequence_ids)
        run = llama_cpp.llama_encode if self._has_encoder else llama_cpp.llama_decode
        status: int = run(self._pointer, self._batch.struct)
        if self._stop_flag[0] != b"\0":
            raise InterruptedError("the computation was interrupted")
        if status != 0:
            raise RuntimeError(f"llama.cpp could not compute a batch of embeddings: {status}")
        llama_cpp.llama_synchronize(self._pointer)

    def _rows(self, sequence_ids: Sequence[int]) -> FloatArray:
        """Copied: the next batch overwrites them."""
        rows = np.empty((len(sequence_ids), self._width), dtype=np.float32)
        for index, sequence_id in enumerate(sequence_ids):
            address: int | None = self._get_row(self._pointer, sequence_id)
            if not address:
                raise RuntimeError("llama.cpp has no embedding of a text")
            ctypes.memmove(rows[index].ctypes.data, address, 4 * self._width)
        if not np.isfinite(rows).all():
            raise RuntimeError("the model computed embeddings that are no numbers")
        return rows[:, :1] if self._pooling is Pooling.RANK else rows

    def interrupt(self) -> None:
        """Make a running batch fail soon, and every later one. From any thread."""
        self._stop_flag[0] = b"\x01"

    def close(self) -> None:
        """Free the context, before its model. Later calls do nothing."""
        pointer, self._pointer = self._pointer, 0
        if pointer:
            llama_cpp.llama_free(pointer)
            self._lifetime.close()

    def __repr__(self) -> str:
        return f"<LlamaEmbedder {self._pooling.name}, {self._width} wide, {self.max_batch_tokens} tokens>"
