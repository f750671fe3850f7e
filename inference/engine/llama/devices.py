"""The devices that this build of llama.cpp can compute on, as ggml lists them.

The Python bindings leave ggml's device functions out; they are looked up in the library itself.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llama_cpp._ggml import libggml

from inference.engine.hardware import ComputeDevice
from inference.engine.llama.library import start_backend

# ggml-backend.h, enum ggml_backend_dev_type.
_GPU, _INTEGRATED_GPU = 1, 2


def _function(name: str, argument_types: list[Any], result_type: Any) -> Any:
    function = getattr(libggml, name)
    function.argtypes = argument_types
    function.restype = result_type
    return function


_SIZE_P = ctypes.POINTER(ctypes.c_size_t)
_count = _function("ggml_backend_dev_count", [], ctypes.c_size_t)
_get = _function("ggml_backend_dev_get", [ctypes.c_size_t], ctypes.c_void_p)
_name = _function("ggml_backend_dev_name", [ctypes.c_void_p], ctypes.c_char_p)
_description = _function("ggml_backend_dev_description", [ctypes.c_void_p], ctypes.c_char_p)
_type = _function("ggml_backend_dev_type", [ctypes.c_void_p], ctypes.c_int)
_memory = _function("ggml_backend_dev_memory", [ctypes.c_void_p, _SIZE_P, _SIZE_P], None)


def list_devices() -> tuple[ComputeDevice, ...]:
    """All of them, with the memory that is free right now. The CPU is one of them."""
    start_backend()
    return tuple([_read(_get(index))[0] for index in range(_count())])


def list_gpus() -> tuple[ComputeDevice, ...]:
    """Those among which llama.cpp shares a model, in its order: integrated ones only where there is
    no other (llama.cpp, `llama_prepare_model_devices`)."""
    start_backend()
    found = [_read(_get(index)) for index in range(_count())]
    own = tuple([device for device, kind in found if kind == _GPU])
    return own or tuple([device for device, kind in found if kind == _INTEGRATED_GPU])


def _read(pointer: int) -> tuple[ComputeDevice, int]:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    _memory(pointer, ctypes.byref(free), ctypes.byref(total))
    kind: int = _type(pointer)
    device = ComputeDevice(
        name=_name(pointer).decode("utf-8", "replace"),
        description=_description(pointer).decode("utf-8", "replace"),
        is_gpu=kind in (_GPU, _INTEGRATED_GPU),
        free_bytes=free.value,
        total_bytes=total.value,
    )
    return device, kind
