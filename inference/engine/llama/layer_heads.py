"""Which layers of a hybrid model keep something of each token: the others have one state for a whole text.

The memory that a model takes follows from that, and llama.cpp tells it only once it has reserved it. A file
says it in one of two ways (llama-model.cpp, `load_hparams`): a number of KV heads for each layer, 0 where
there are none, or every how many layers one attends. Lists are not among what llama.cpp hands on of a file
(metadata.py), so that one is read with ggml's own reader of its header.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import _ggml

# gguf.h, enum gguf_type: integers of 32 bits, and a list.
_INTEGERS: dict[int, Any] = {4: np.uint32, 5: np.int32}
_LIST = 9


@dataclass(frozen=True, slots=True)
class AttendingLayers:
    """How many layers have KV cells, and the most KV heads that one of them has."""

    num_layers: int
    num_kv_heads: int


def attending_layers(
    *, num_layers: int, num_kv_heads: int, heads_of_layers: Sequence[int] | None, interval: int
) -> AttendingLayers:
    """`num_kv_heads` is what holds where the file says it once for all layers, `interval` 0 where it does not
    say it. What nobody says is taken for the most that it can be: all of them."""
    if heads_of_layers is not None:
        having = [heads for heads in heads_of_layers[:num_layers] if heads > 0]
        return AttendingLayers(len(having), max(having, default=0))
    if interval > 0:
        return AttendingLayers(num_layers // interval, num_kv_heads)
    return AttendingLayers(num_layers, num_kv_heads)


class _InitParams(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


def read_integers(path: Path, key: str) -> tuple[int, ...] | None:
    """A list of integers in the header of a GGUF file; None where there is none of that name."""
    library = _ggml.libggml
    header = _function("gguf_init_from_file", ctypes.c_void_p, [ctypes.c_char_p, _InitParams])(
        str(path).encode(), _InitParams(no_alloc=True, ctx=None)
    )
    if not header:
        return None
    try:
        of_header, of_key = [ctypes.c_void_p, ctypes.c_char_p], [ctypes.c_void_p, ctypes.c_int64]
        found: int = _function("gguf_find_key", ctypes.c_int64, of_header)(header, key.encode())
        if found < 0 or _function("gguf_get_kv_type", ctypes.c_int, of_key)(header, found) != _LIST:
            return None
        kind = _INTEGERS.get(_function("gguf_get_arr_type", ctypes.c_int, of_key)(header, found))
        if kind is None:
            return None
        length: int = _function("gguf_get_arr_n", ctypes.c_size_t, of_key)(header, found)
        data = _function("gguf_get_arr_data", ctypes.c_void_p, of_key)(header, found)
        values = np.frombuffer(ctypes.string_at(data, 4 * length), dtype=kind)
        return tuple([int(value) for value in values])
    finally:
        free = library.gguf_free
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        free(header)


def _function(name: str, result: Any, arguments: list[Any]) -> Any:
    found = getattr(_ggml.libggml, name)
    found.restype, found.argtypes = result, arguments
    return found
