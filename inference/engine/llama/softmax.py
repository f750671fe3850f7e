"""The exponentials of a row of logits and their sum, which is most of what a softmax costs.

Of 49,152 numbers numpy's take 60 to 75 µs on AVX2; ggml's own kernel, which is there anyway, 28, and both
leave the interpreter to others meanwhile. The kernel is no part of ggml's interface, though. So it is
used only where it is exported and computes what it should; numpy does the rest.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Exponentials = Callable[[], float]
# Binds two contiguous arrays of the same length: each call then fills the second with the exponentials of
# the first, which are of 0 or less (-inf included, NaN not), and returns their sum.
BindExponentials = Callable[[FloatArray, FloatArray], Exponentials]

_LIBRARY_NAMES = {"darwin": "libggml-cpu.dylib", "win32": "ggml-cpu.dll"}
_KERNEL = "ggml_vec_soft_max_f32"


def bind_numpy(gaps: FloatArray, out: FloatArray) -> Exponentials:
    """Works everywhere."""

    def compute() -> float:
        np.exp(gaps, out=out)
        return float(out.sum())

    return compute


@functools.cache
def fastest_exponentials() -> BindExponentials:
    """By ggml's kernel, or by numpy where that is not to be had."""
    kernel = _find_kernel()
    if kernel is None:
        return bind_numpy

    def bind_ggml(gaps: FloatArray, out: FloatArray) -> Exponentials:
        # Pointers that keep their arrays alive, made once: each takes longer than a small call.
        size = len(gaps)
        source, target = gaps.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p)

        def compute() -> float:
            total: float = kernel(size, target, source, 0.0)
            return total

        return compute

    return bind_ggml if _is_right(bind_ggml) else bind_numpy


def _find_kernel() -> Any:
    """None where it is not to be found. A build with a library for each kind of CPU has other names,
    and which of those can run here is for ggml to know."""
    path = Path(llama_cpp.__file__).parent / "lib" / _LIBRARY_NAMES.get(sys.platform, "libggml-cpu.so")
    try:
        kernel = getattr(ctypes.CDLL(str(path)), _KERNEL)
    except (OSError, AttributeError):
        return None
    # ggml-cpu/vec.h: ggml_float ggml_vec_soft_max_f32(const int n, float * y, const float * x, float max)
    kernel.restype = ctypes.c_double
    kernel.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float]
    return kernel


def _is_right(bind: BindExponentials) -> bool:
    """Try it on what is hard: an odd length, underflow, infinity."""
    gaps = np.linspace(-110, 0, 203, dtype=np.float32)
    gaps[5] = -np.inf
    out, expected = np.full_like(gaps, -1.0), np.empty_like(gaps)
    total, wanted = bind(gaps, out)(), bind_numpy(gaps, expected)()
    return abs(total - wanted) < 1e-5 * wanted and bool(np.allclose(out, expected, rtol=1e-5, atol=1e-30))
