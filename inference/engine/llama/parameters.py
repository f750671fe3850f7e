"""Our settings in llama.cpp's terms: the structs that a model and a context are made with."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp

from inference.engine.config import EngineConfig
from inference.engine.hardware import (
    ALL_LAYERS,
    ComputeDevice,
    FlashAttention,
    HardwareConfig,
    KvType,
    LoadMode,
    SplitMode,
)
from inference.engine.llama.library import has_unsafe_amx

_SPLIT_MODES = {
    SplitMode.NONE: llama_cpp.LLAMA_SPLIT_MODE_NONE,
    SplitMode.LAYER: llama_cpp.LLAMA_SPLIT_MODE_LAYER,
    SplitMode.ROW: llama_cpp.LLAMA_SPLIT_MODE_ROW,
}
_LOAD_MODES = {
    LoadMode.AUTO: llama_cpp.LLAMA_LOAD_MODE_AUTO,
    LoadMode.MMAP: llama_cpp.LLAMA_LOAD_MODE_MMAP,
    LoadMode.READ: llama_cpp.LLAMA_LOAD_MODE_NONE,
    LoadMode.MLOCK: llama_cpp.LLAMA_LOAD_MODE_MMAP_MLOCK,
}
_FLASH_ATTENTION = {
    FlashAttention.AUTO: llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    FlashAttention.ON: llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    FlashAttention.OFF: llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
_KV_TYPES = {
    KvType.F32: llama_cpp.GGML_TYPE_F32,
    KvType.F16: llama_cpp.GGML_TYPE_F16,
    # ggml.h: not among the constants of the bindings.
    KvType.BF16: 30,
    KvType.Q8_0: llama_cpp.GGML_TYPE_Q8_0,
    KvType.Q5_1: llama_cpp.GGML_TYPE_Q5_1,
    KvType.Q5_0: llama_cpp.GGML_TYPE_Q5_0,
    KvType.Q4_1: llama_cpp.GGML_TYPE_Q4_1,
    KvType.Q4_0: llama_cpp.GGML_TYPE_Q4_0,
    KvType.IQ4_NL: llama_cpp.GGML_TYPE_IQ4_NL,
}


def model_params(hardware: HardwareConfig, gpus: Sequence[ComputeDevice]) -> Any:
    """A `llama_model_params`. It holds the array that it points to."""
    params = llama_cpp.llama_model_default_params()
    if has_unsafe_amx():
        params.use_extra_bufts = False
    params.load_mode = _LOAD_MODES[hardware.load_mode]
    wanted = ALL_LAYERS if hardware.gpu_layers is None else hardware.gpu_layers
    params.n_gpu_layers = wanted if gpus else 0
    params.split_mode = _SPLIT_MODES[hardware.split_mode]
    params.main_gpu = hardware.main_gpu
    if hardware.tensor_split:
        # llama.cpp reads as many as there may be devices, however many there are.
        shares = (ctypes.c_float * llama_cpp.llama_max_devices())(*hardware.tensor_split)
        params.tensor_split = shares
    return params


def probe_params() -> Any:
    """For a model of which only the description is wanted: no weight is read."""
    params = llama_cpp.llama_model_default_params()
    params.no_alloc = True
    params.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # it cannot be mapped without being read
    params.n_gpu_layers = 0
    return params


def context_params(config: EngineConfig, num_sequences: int, max_outputs: int) -> Any:
    """A `llama_context_params`, without a callback to abort."""
    hardware = config.hardware
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = config.num_cells
    params.n_batch = config.max_batch_tokens
    params.n_ubatch = min(config.max_ubatch_tokens, config.max_batch_tokens)
    params.n_seq_max = num_sequences
    # One token is drawn for each lane and step, and some behind drafts; the default would reserve a row
    # for each token. Fewer rows than sequences would end the process.
    params.n_outputs_max = max_outputs
    params.kv_unified = True
    params.n_threads = config.effective_threads
    params.n_threads_batch = config.effective_batch_threads
    params.flash_attn_type = _FLASH_ATTENTION[hardware.flash_attention]
    params.type_k = _KV_TYPES[hardware.key_type]
    params.type_v = _KV_TYPES[hardware.value_type]
    params.swa_full = hardware.has_full_window
    # Without layers on a GPU llama.cpp would still send it large batches, weights and all.
    params.op_offload = params.offload_kqv = hardware.gpu_layers != 0
    params.no_perf = True
    return params
