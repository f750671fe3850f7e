"""What a model takes of each device: read from the model before, and from llama.cpp's words after."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from pathlib import Path

import llama_cpp

from inference.engine.hardware import ComputeDevice
from inference.engine.llama.layer_heads import AttendingLayers, attending_layers, read_integers
from inference.engine.memory_plan import HOST, DeviceMemory, ModelShape
from inference.engine.pooling import ENCODERS

Buffers = Sequence[tuple[str, str, int]]

_MAPPED = "_Mapped"
_MAX_NUMBER_CHARS = 64


def read_shape(pointer: int, path: Path) -> ModelShape:
    """Heads may be of another size than width ÷ heads; then the file says so."""
    num_heads: int = llama_cpp.llama_model_n_head(pointer)
    width: int = llama_cpp.llama_model_n_embd(pointer)
    head_size = width // num_heads if num_heads else 0
    num_layers: int = llama_cpp.llama_model_n_layer(pointer)
    attending = _attending(pointer, path, num_layers)
    return ModelShape(
        name=path.name,
        weights_bytes=llama_cpp.llama_model_size(pointer),
        num_layers=num_layers,
        num_kv_layers=attending.num_layers,
        width=width,
        feed_forward_width=_number(pointer, "feed_forward_length") or 4 * width,
        num_heads=num_heads,
        num_kv_heads=attending.num_kv_heads,
        key_length=_number(pointer, "attention.key_length") or head_size,
        value_length=_number(pointer, "attention.value_length") or head_size,
        num_vocabulary=llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(pointer)),
    )


def _attending(pointer: int, path: Path, num_layers: int) -> AttendingLayers:
    """Where a text is one state (recurrent models), or nothing of it is kept (encoders), memory does not grow
    with it; that of hybrid models does, in some layers."""
    architecture = _text(pointer, "general.architecture")
    if llama_cpp.llama_model_is_recurrent(pointer) or architecture in ENCODERS:
        return AttendingLayers(0, 0)
    num_kv_heads: int = llama_cpp.llama_model_n_head_kv(pointer)
    if not llama_cpp.llama_model_is_hybrid(pointer):
        return AttendingLayers(num_layers, num_kv_heads)
    return attending_layers(
        num_layers=num_layers,
        num_kv_heads=num_kv_heads,
        heads_of_layers=read_integers(path, f"{architecture}.attention.head_count_kv"),
        interval=_number(pointer, "full_attention_interval"),
    )


def used_memory(
    buffers: Buffers, gpus: Iterable[ComputeDevice], host_free_bytes: int | None
) -> tuple[DeviceMemory, ...]:
    """The buffers that were reserved, by device; `gpus` and `host_free_bytes` are of afterwards.

    What belongs to no GPU is in the machine's own memory, also where a GPU reads it from there.
    Mapped weights are no use if they are dropped, so they do not count as free.
    """
    by_name = {gpu.name: gpu for gpu in gpus}
    sums: dict[str, dict[str, int]] = {HOST: {}, **{name: {} for name in by_name}}
    num_mapped_bytes = 0
    for buffer, kind, num_bytes in buffers:
        device = next((name for name in by_name if buffer == name or buffer.startswith(f"{name}_")), HOST)
        part = {"model": "weights", "LoRA": "weights", "KV": "kv", "RS": "kv"}.get(kind, "compute")
        sums[device][part] = sums[device].get(part, 0) + num_bytes
        if device == HOST and buffer.endswith(_MAPPED):
            num_mapped_bytes += num_bytes
    free: dict[str, int | None] = {
        name: gpu.free_bytes if gpu.total_bytes else None for name, gpu in by_name.items()
    }
    free[HOST] = None if host_free_bytes is None else host_free_bytes - num_mapped_bytes
    return tuple(
        [
            DeviceMemory(name, one.get("weights", 0), one.get("kv", 0), one.get("compute", 0), free[name])
            for name, one in sums.items()
        ]
    )


def _number(pointer: int, key: str) -> int:
    """A number in the file's description under `<architecture>.<key>`; 0 where there is none, or one
    for each layer."""
    text = _text(pointer, f"{_text(pointer, 'general.architecture')}.{key}")
    return int(text) if text.isdigit() else 0


def _text(pointer: int, key: str) -> str:
    buffer = ctypes.create_string_buffer(_MAX_NUMBER_CHARS)
    length: int = llama_cpp.llama_model_meta_val_str(pointer, key.encode(), buffer, _MAX_NUMBER_CHARS)
    return buffer.value.decode("utf-8", "replace") if 0 < length < _MAX_NUMBER_CHARS else ""
