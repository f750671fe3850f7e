"""LoRA adapters that nobody trained: random changes, large enough that a model says something else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFWriter

CHANGED = ("attn_q", "attn_v", "attn_output", "ffn_down")


def write_adapter(
    model: Path,
    target: Path,
    *,
    seed: int,
    rank: int = 4,
    strength: float = 0.3,
    changed: Collection[str] = CHANGED,
    metadata: Mapping[str, Any] | None = None,
    reshape: float = 1.0,
) -> Path:
    """Write `target`, an adapter for the GGUF file `model` of tensors whose names contain one of `changed`.

    Both factors are normal with the deviation `strength`. `metadata` replaces what a LoRA says of itself
    (None leaves a field out); with a `reshape` other than 1 its shapes fit nothing.
    """
    reader = GGUFReader(model)
    random = np.random.default_rng(seed)
    fields: dict[str, Any] = {
        "general.architecture": reader.fields["general.architecture"].contents(),
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(rank),
        **(metadata or {}),
    }
    writer = GGUFWriter(target, "llama")
    writer.kv_data[0].clear()
    for name, value in fields.items():
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
        elif value is not None:
            writer.add_uint32(name, value)
    for tensor in reader.tensors:
        kind = tensor.name.removesuffix(".weight").rpartition(".")[2]
        if kind not in changed:
            continue
        num_inputs, num_outputs = (max(1, int(int(size) * reshape)) for size in tensor.shape)
        for suffix, shape in (("lora_a", (rank, num_inputs)), ("lora_b", (num_outputs, rank))):
            weights = (random.standard_normal(shape) * strength).astype(np.float32)
            writer.add_tensor(f"{tensor.name}.{suffix}", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
