"""Entropy and margin against float64, and the rows that are no distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inference.domain.signals import MAX_MARGIN, TokenSignal
from inference.engine.llama.signals import SignalMeter
from inference.engine.llama.softmax import bind_numpy

INF = math.inf
SIZES = [1, 2, 3, 7, 8, 9, 255, 1000, 49_152]


def reference(row: np.ndarray) -> TokenSignal:
    exact = row.astype(np.float64)
    gaps = exact - exact.max()
    masses = np.exp(gaps)
    shares = masses / masses.sum()
    is_there = shares > 0
    entropy = float(-(shares[is_there] * np.log(shares[is_there])).sum())
    ordered = np.sort(gaps)
    margin = MAX_MARGIN if len(row) == 1 else min(float(-ordered[-2]), MAX_MARGIN)
    return TokenSignal(entropy, margin)


def check(rows: np.ndarray) -> None:
    rows = rows.astype(np.float32)
    before = rows.copy()
    found = SignalMeter(rows.shape[1]).measure(rows, range(len(rows)))
    assert list(found) == list(range(len(rows)))
    for row, signal in found.items():
        wanted = reference(rows[row])
        assert signal.entropy == pytest.approx(wanted.entropy, abs=3e-4), row
        assert signal.margin == pytest.approx(wanted.margin, rel=1e-5, abs=1e-5), row
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0, 40.0])
def test_it_agrees_with_float64(size: int, spread: float) -> None:
    rng = np.random.default_rng(size)
    check(rng.standard_normal((4, size)) * spread + 20)
    check(rng.standard_normal((2, size)) * spread - 1000)


@pytest.mark.parametrize("size", SIZES)
def test_all_the_same_is_the_highest_entropy_and_no_margin(size: int) -> None:
    check(np.full((1, size), 17.3))
    (signal,) = SignalMeter(size).measure(np.full((1, size), 17.3, dtype=np.float32), [0]).values()
    assert signal.entropy == pytest.approx(math.log(size), abs=1e-4)
    assert signal.margin == (MAX_MARGIN if size == 1 else 0.0)


def test_ties_at_the_top_have_no_margin() -> None:
    rows = np.array([[3.0, 3.0, 1.0], [1.0, 3.0, 3.0], [3.0, 1.0, 3.0]])
    check(rows)
    assert {one.margin for one in SignalMeter(3).measure(rows.astype(np.float32), range(3)).values()} == {0.0}


@pytest.mark.parametrize(
    "row",
    [
        [5.0, -INF, -INF, -INF],
        [-INF, 2.0, -INF, 1.0],
        [-INF, -INF, -INF, -3.0e38],
        [3.0e38, 0.0, -3.0e38, -INF],
        [500.0, 0.0, -500.0, 100.0],
    ],
)
def test_tokens_that_cannot_be(row: list[float]) -> None:
    check(np.array([row]))


def test_one_certain_token_among_many_that_cannot_be() -> None:
    row = np.full((1, 49_152), -INF)
    row[0, 77] = 4.0
    check(row)
    assert SignalMeter(49_152).measure(row.astype(np.float32), [0]) == {0: TokenSignal(0.0, MAX_MARGIN)}


@pytest.mark.parametrize(
    "row", [[math.nan] * 3, [1.0, math.nan, 2.0], [-INF] * 3, [1.0, INF, 0.0], [INF, INF, INF]]
)
def test_a_row_that_nothing_can_be_drawn_from_has_no_signal(row: list[float]) -> None:
    rows = np.array([[1.0, 2.0, 3.0], row, [3.0, 2.0, 1.0]], dtype=np.float32)
    found = SignalMeter(3).measure(rows, [0, 1, 2])
    assert list(found) == [0, 2]
    assert found[0] == found[2]


def test_only_the_rows_that_are_asked_for_and_as_if_alone() -> None:
    rows = np.random.default_rng(1).standard_normal((5, 1000)).astype(np.float32) * 4
    meter = SignalMeter(1000)
    together = meter.measure(rows, [3, 1])
    assert together == {3: meter.measure(rows, [3])[3], 1: meter.measure(rows, [1])[1]}
    assert meter.measure(rows, []) == {}


def test_numpy_alone_gives_the_same_signals() -> None:
    rows = np.random.default_rng(3).standard_normal((3, 5000)).astype(np.float32) * 5
    rows[1, 100:] = -INF
    meter, plain = SignalMeter(5000), SignalMeter(5000, bind_numpy)
    fast, slow = meter.measure(rows, range(3)), plain.measure(rows, range(3))
    for row in range(3):
        assert fast[row].entropy == pytest.approx(slow[row].entropy, abs=1e-4)
        assert fast[row].margin == slow[row].margin
