"""What a GGUF file says of itself, read through llama.cpp."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp


def read_metadata(pointer: int) -> dict[str, str]:
    """The file's own key-value pairs, as text; lists are not among them."""
    count: int = llama_cpp.llama_model_meta_count(pointer)
    keys = [_read_text(llama_cpp.llama_model_meta_key_by_index, pointer, index) for index in range(count)]
    values = [
        _read_text(llama_cpp.llama_model_meta_val_str_by_index, pointer, index) for index in range(count)
    ]
    return dict(zip(keys, values, strict=True))


def _read_text(read: Any, pointer: int, index: int) -> str:
    """llama.cpp writes at most what fits and says how long the text really is."""
    size = 1024
    while True:
        buffer = ctypes.create_string_buffer(size)
        length: int = read(pointer, index, buffer, size)
        if length < size:
            return buffer.raw[: max(length, 0)].decode("utf-8", "replace")
        size = length + 1
