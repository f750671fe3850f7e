"""Pictures and sounds to tokens and embeddings, by libmtmd and a projector file that fits the model.

libmtmd's own helpers decode files and run the model, one picture at a time and everybody waiting. Here
it gets pixels and samples that were decoded elsewhere, and gives back rows; the engine computes them
among everybody's batches.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import llama_cpp
import numpy as np
from llama_cpp import mtmd_cpp

from inference.domain.errors import GenerationFailed
from inference.domain.media import MediaGrid, MediaKind, MediaPiece, Picture, Sound, UnreadableMedia
from inference.domain.media_run import media_token_ids
from inference.engine.config import EngineConfig
from inference.engine.llama.library import log_callback
from inference.engine.llama.lifetime import NativeLifetime
from inference.engine.load_error import ModelLoadError
from inference.engine.sequence_media import EmbeddingArray

logger = logging.getLogger(__name__)

_TEXT = mtmd_cpp.MTMD_INPUT_CHUNK_TYPE_TEXT
_UINT8_P = ctypes.POINTER(ctypes.c_uint8)
_FLOAT_P = ctypes.POINTER(ctypes.c_float)

UNREADABLE = "the model cannot read it"


class ProjectedModel(Protocol):
    """What a projector needs of the model that it reads for; LlamaModel has it."""

    @property
    def pointer(self) -> Any: ...

    @property
    def path(self) -> Path: ...

    @property
    def lifetime(self) -> NativeLifetime: ...


class LlamaProjector:
    """Implements domain.media.MediaProjector; owns a `mtmd_context`.

    `lay_out` is for any thread: what it calls only reads. `encode` has one buffer for its results.
    """

    def __init__(self, pointer: Any, path: Path, model: ProjectedModel, config: EngineConfig) -> None:
        self._pointer = pointer
        self._path = path
        self._model = model
        self._max_tokens_at_once = config.max_tokens_at_once
        self._width: int = llama_cpp.llama_model_n_embd_inp(model.pointer)
        self._has_plane: bool = mtmd_cpp.mtmd_decode_use_mrope(pointer)
        self.row_bytes = 4 * self._width
        self._lifetime = NativeLifetime(lambda: mtmd_cpp.mtmd_free(pointer))
        kinds = set()
        if mtmd_cpp.mtmd_support_vision(pointer):
            kinds.add(MediaKind.IMAGE)
        if mtmd_cpp.mtmd_support_audio(pointer):
            kinds.add(MediaKind.AUDIO)
        self.kinds = frozenset(kinds)
        self.sound_rate = max(0, mtmd_cpp.mtmd_get_audio_sample_rate(pointer))

    @classmethod
    def load(cls, path: Path, model: ProjectedModel, config: EngineConfig) -> LlamaProjector:
        """Read the file; takes up to seconds. A damaged one may end the process (projector_trial.py knows
        before). Raises ModelLoadError: no such file, one that does not fit
        the model."""
        try:
            with path.open("rb") as file:
                is_gguf = file.read(4) == b"GGUF"
        except OSError as error:
            raise ModelLoadError(f"The projector file {path} cannot be read: {error.strerror}.") from None
        if not is_gguf:
            raise ModelLoadError(f"The projector {path} is not a GGUF file.")
        mtmd_cpp.mtmd_log_set(log_callback, None)
        params = mtmd_cpp.mtmd_context_params_default()
        params.use_gpu = config.hardware.gpu_layers != 0 and llama_cpp.llama_supports_gpu_offload()
        params.print_timings = False
        params.n_threads = config.effective_media_threads
        pointer = mtmd_cpp.mtmd_init_from_file(str(path).encode(), model.pointer, params)
        if not pointer:
            raise ModelLoadError(
                f"llama.cpp cannot use the projector {path.name} with {model.path.name}: the file is "
                "damaged, of an unknown kind, or belongs to another model (see the log)."
            )
        projector = cls(pointer, path, model, config)
        logger.info("%r", projector)
        return projector

    def lay_out(self, item: Picture | Sound) -> tuple[MediaPiece, ...]:
        with self._chunks(item) as chunks:
            return tuple([self._piece(chunk, item, index) for index, chunk in enumerate(chunks)])

    def _piece(self, chunk: Any, item: Picture | Sound, index: int) -> MediaPiece:
        num_tokens: int = mtmd_cpp.mtmd_input_chunk_get_n_tokens(chunk)
        if mtmd_cpp.mtmd_input_chunk_get_type(chunk) == _TEXT:
            count = ctypes.c_size_t()
            ids = mtmd_cpp.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
            return MediaPiece(tuple(ids[: count.value]) if ids else ())
        is_causal = not mtmd_cpp.mtmd_decode_use_non_causal(self._pointer, chunk)
        if not is_causal and num_tokens > self._max_tokens_at_once:
            raise UnreadableMedia(
                f"it takes {num_tokens} tokens that must be computed at once, and this service computes "
                f"{self._max_tokens_at_once}"
            )
        ids = media_token_ids(item.digest, index, num_tokens)
        return MediaPiece(ids, True, is_causal, self._grid(chunk, num_tokens))

    def _grid(self, chunk: Any, num_tokens: int) -> MediaGrid | None:
        """Where the rows stand, as libmtmd's own helper says; sounds stand one behind the other."""
        if not self._has_plane:
            return None
        image = mtmd_cpp.mtmd_input_chunk_get_tokens_image(chunk)
        if not image:
            behind = np.arange(num_tokens, dtype=np.int32)
            return MediaGrid(np.stack([behind, behind, behind]), num_tokens)
        places = (mtmd_cpp.mtmd_decoder_pos * num_tokens)()
        mtmd_cpp.mtmd_helper_image_get_decoder_pos(image, 0, places)
        # Four numbers for each: time, left, top, and one that no model of ours uses.
        numbers = np.frombuffer(places, dtype=np.int32).reshape(num_tokens, 4)
        num_positions: int = mtmd_cpp.mtmd_input_chunk_get_n_pos(chunk)
        return MediaGrid(np.ascontiguousarray(numbers[:, [0, 2, 1]].T), num_positions)

    def encode(self, item: Picture | Sound) -> tuple[EmbeddingArray, ...]:
        with self._chunks(item) as chunks:
            return tuple(
                [self._rows(one) for one in chunks if mtmd_cpp.mtmd_input_chunk_get_type(one) != _TEXT]
            )

    def _rows(self, chunk: Any) -> EmbeddingArray:
        """The rows of a chunk, copied: the next one overwrites them."""
        num_tokens: int = mtmd_cpp.mtmd_input_chunk_get_n_tokens(chunk)
        if mtmd_cpp.mtmd_encode_chunk(self._pointer, chunk) != 0:
            raise GenerationFailed("The model could not read a picture or a sound.")
        rows = np.ctypeslib.as_array(
            mtmd_cpp.mtmd_get_output_embd(self._pointer), (num_tokens, self._width)
        ).copy()
        if not np.isfinite(rows).all():
            raise GenerationFailed("The model could not read a picture or a sound.")
        rows.flags.writeable = False
        return rows

    @contextmanager
    def _chunks(self, item: Picture | Sound) -> Iterator[list[Any]]:
        """What stands for one item, preprocessed but not encoded; valid inside."""
        # The vocabulary is the model's, which may be about to be freed.
        with self._lifetime, self._model.lifetime:
            chunks = mtmd_cpp.mtmd_input_chunks_init()
            try:
                if self._tokenize(item, chunks) != 0:
                    raise UnreadableMedia(UNREADABLE)
                count: int = mtmd_cpp.mtmd_input_chunks_size(chunks)
                yield [mtmd_cpp.mtmd_input_chunks_get(chunks, index) for index in range(count)]
            finally:
                mtmd_cpp.mtmd_input_chunks_free(chunks)

    def _tokenize(self, item: Picture | Sound, chunks: Any) -> int:
        # By parts and not by a marker in a text: there is none that somebody could write.
        bitmap = _make_bitmap(item)
        try:
            part = mtmd_cpp.mtmd_input_part(None, bitmap)
            parts = (ctypes.POINTER(mtmd_cpp.mtmd_input_part) * 1)(ctypes.pointer(part))
            status: int = mtmd_cpp.mtmd_tokenize_from_parts(self._pointer, chunks, parts, 1, False)
            return status
        finally:
            mtmd_cpp.mtmd_bitmap_free(bitmap)

    def close(self) -> None:
        self._lifetime.close()

    def __repr__(self) -> str:
        kinds = ", ".join(sorted(kind.value for kind in self.kinds))
        return f"<LlamaProjector {self._path.name} ({kinds}) for {self._model.path.name}>"


def _make_bitmap(item: Picture | Sound) -> Any:
    """A copy of the item for libmtmd, to be freed. Sizes are checked: it reads what they say."""
    if isinstance(item, Picture):
        if min(item.width, item.height) < 1 or len(item.rgb) != 3 * item.width * item.height:
            raise ValueError(f"{item!r} has {len(item.rgb)} bytes")
        pixels = np.frombuffer(item.rgb, dtype=np.uint8)
        bitmap = mtmd_cpp.mtmd_bitmap_init(item.width, item.height, pixels.ctypes.data_as(_UINT8_P))
    else:
        samples = np.frombuffer(item.samples, dtype=np.float32)
        if len(samples) < 2:  # libmtmd ends the process where there is one
            raise UnreadableMedia(UNREADABLE)
        bitmap = mtmd_cpp.mtmd_bitmap_init_from_audio(len(samples), samples.ctypes.data_as(_FLOAT_P))
    if not bitmap:
        raise MemoryError("libmtmd cannot hold a picture or a sound")
    return bitmap
