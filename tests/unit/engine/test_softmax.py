from __future__ import annotations

import gc
import math

import numpy as np
import pytest

from inference.engine.llama.softmax import (
    BindExponentials,
    Exponentials,
    FloatArray,
    _is_right,
    bind_numpy,
    fastest_exponentials,
)


def both() -> list[BindExponentials]:
    return [bind_numpy, fastest_exponentials()]


@pytest.mark.parametrize("bind", both(), ids=["numpy", "fastest"])
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 5003])
def test_exponentials_and_their_sum(bind: BindExponentials, size: int) -> None:
    gaps = np.random.default_rng(size).uniform(-120, 0, size).astype(np.float32)
    gaps[0] = 0.0
    gaps[1:2] = -math.inf
    out = np.full_like(gaps, 7.0)
    expected = np.exp(gaps.astype(np.float64))
    assert bind(gaps, out)() == pytest.approx(expected.sum(), rel=1e-5)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-30)


def test_each_call_looks_at_the_array_again_and_keeps_it_alive() -> None:
    out = np.empty(4, dtype=np.float32)
    gaps = np.zeros(4, dtype=np.float32)
    compute = fastest_exponentials()(gaps, out)
    assert compute() == 4.0
    gaps[2:] = -math.inf
    assert compute() == 2.0
    del gaps, out
    gc.collect()
    assert compute() == 2.0


def too_much(gaps: FloatArray, out: FloatArray) -> Exponentials:
    return lambda: bind_numpy(gaps, out)() + 1


def not_filled(gaps: FloatArray, out: FloatArray) -> Exponentials:
    return bind_numpy(gaps, np.empty_like(out))


def no_number(gaps: FloatArray, out: FloatArray) -> Exponentials:
    return lambda: math.nan


@pytest.mark.parametrize("bind", [too_much, not_filled, no_number])
def test_a_kernel_that_computes_something_else_is_not_used(bind: BindExponentials) -> None:
    assert _is_right(bind_numpy)
    assert not _is_right(bind)
