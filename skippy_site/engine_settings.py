"""The engine's configuration from the settings, with the settings' names in what is wrong with it.

The rules are the engine's own (inference/engine/config.py, hardware.py); here they are only called,
so that they are written once and a wrong combination is one line at start.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from inference.engine.config import EngineConfig
from inference.engine.hardware import (
    ALL_LAYERS,
    FlashAttention,
    HardwareConfig,
    KvType,
    LoadMode,
    SplitMode,
)
from inference.engine.host_memory import default_host_cache_bytes

if TYPE_CHECKING:
    from skippy_site.env import Environment

VARIABLES = {
    "num_lanes": "SKIPPY_LANES",
    "num_cells": "SKIPPY_CONTEXT",
    "num_threads": "SKIPPY_THREADS",
    "num_batch_threads": "SKIPPY_BATCH_THREADS",
    "num_media_threads": "SKIPPY_MEDIA_THREADS",
    "max_batch_tokens": "SKIPPY_BATCH",
    "max_ubatch_tokens": "SKIPPY_MICRO_BATCH",
    "max_embedding_tokens": "SKIPPY_EMBEDDING_TOKENS",
    "gpu_layers": "SKIPPY_GPU_LAYERS",
    "split_mode": "SKIPPY_SPLIT_MODE",
    "tensor_split": "SKIPPY_TENSOR_SPLIT",
    "main_gpu": "SKIPPY_MAIN_GPU",
    "host_cache_bytes": "SKIPPY_HOST_CACHE_BYTES",
    "kv_type_v": "SKIPPY_KV_TYPE_V",
    "flash_attention": "SKIPPY_FLASH_ATTENTION",
}
_NAMES = re.compile(rf"\b({'|'.join(VARIABLES)})\b")


def engine_config(environment: Environment) -> EngineConfig:
    """Raises ValueError with one line that names the variable at fault."""
    try:
        return EngineConfig(
            num_lanes=environment.lanes,
            num_cells=environment.context,
            num_threads=environment.threads,
            num_batch_threads=environment.batch_threads,
            num_media_threads=environment.media_threads,
            # llama.cpp cuts it down to the cells anyhow, and then a larger plan would not fit.
            max_batch_tokens=min(environment.batch, environment.context),
            max_ubatch_tokens=environment.micro_batch,
            max_embedding_tokens=environment.embedding_tokens,
            has_prefix_cache=environment.prefix_cache,
            host_cache_bytes=(
                default_host_cache_bytes()
                if environment.host_cache_bytes < 0
                else environment.host_cache_bytes
            ),
            disk_cache_dir=environment.disk_cache_dir,
            disk_cache_bytes=environment.disk_cache_bytes if environment.disk_cache_dir else 0,
            hardware=HardwareConfig(
                gpu_layers=_gpu_layers(environment.gpu_layers),
                split_mode=SplitMode(environment.split_mode),
                tensor_split=_shares(environment.tensor_split),
                main_gpu=environment.main_gpu,
                key_type=KvType(environment.kv_type_k),
                value_type=KvType(environment.kv_type_v),
                flash_attention=FlashAttention(environment.flash_attention),
                load_mode=LoadMode(environment.load_mode),
                has_full_window=environment.swa_full,
            ),
        )
    except ValueError as problem:
        raise ValueError(_NAMES.sub(lambda found: VARIABLES[found[1]], str(problem))) from None


def _gpu_layers(given: str) -> int | None:
    if not given:
        return None
    if given.lower() == "all":
        return ALL_LAYERS
    if not re.fullmatch(r"-?[0-9]{1,6}", given):
        raise ValueError(f"gpu_layers: expected all or a number of layers, not {given!r}")
    return int(given)


def _shares(given: str) -> tuple[float, ...]:
    try:
        return tuple([float(share) for share in given.split(",")]) if given else ()
    except ValueError:
        raise ValueError(f"tensor_split: expected numbers with commas between them, not {given!r}") from None
