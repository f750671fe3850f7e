from __future__ import annotations

import math

import numpy as np
import pytest

from inference.engine.llama.candidates import (
    OUT_OF_RANGE,
    max_fast_top_k,
    nucleus_cut,
    top_candidates,
    top_of_row,
    weighted_choice,
)


def by_sorting(row: np.ndarray, k: int) -> list[int]:
    return np.lexsort((np.arange(len(row)), -row))[:k].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("num_tokens", [5, 191, 192, 5000, 32000, 49152, 50257, 151936])
@pytest.mark.parametrize("kind", ["normal", "steps", "flat"])
def test_top_candidates_are_those_of_a_full_sort(num_tokens: int, kind: str) -> None:
    rng = np.random.default_rng(num_tokens)
    rows = rng.standard_normal((3, num_tokens)).astype(np.float32) * 4
    if kind == "steps":
        rows = np.round(rows)
    if kind == "flat":
        rows[:] = 1.5
    # The best are at the very ends too, where the last group is not whole.
    rows[0, -1], rows[1, 0] = 99.0, 99.0
    ks = np.array([1, min(7, num_tokens), min(40, num_tokens)])
    values, token_ids = top_candidates(rows, ks)
    for row, k, found, value in zip(rows, ks.tolist(), token_ids, values, strict=True):
        assert found[:k].tolist() == by_sorting(row, k)
        assert np.array_equal(value[:k], row[found[:k]].astype(np.float64))
        assert (value[k:] == -OUT_OF_RANGE).all()


def test_both_ways_find_the_same_on_either_side_of_the_limit() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2, 20000)).astype(np.float32)
    limit = max_fast_top_k(20000)
    for k in (limit, limit + 1):
        _, token_ids = top_candidates(rows, np.array([k, k]))
        assert token_ids[0].tolist() == by_sorting(rows[0], k)


def test_a_strided_view_is_read_right() -> None:
    rng = np.random.default_rng(2)
    wide = rng.standard_normal((4, 30000)).astype(np.float32)
    rows = wide[::2]
    _, token_ids = top_candidates(rows, np.array([5, 5]))
    assert token_ids[1].tolist() == by_sorting(rows[1], 5)


def test_infinities_become_numbers_out_of_range() -> None:
    rows = np.full((1, 20000), -math.inf, dtype=np.float32)
    rows[0, 17] = 3.0
    values, token_ids = top_candidates(rows, np.array([4]))
    assert token_ids[0, 0] == 17
    assert values[0].tolist() == [3.0, *[-OUT_OF_RANGE] * 3]


def test_rows_without_numbers_come_out_empty() -> None:
    rows = np.full((2, 20000), math.nan, dtype=np.float32)
    rows[1] = np.arange(20000)
    values, token_ids = top_candidates(rows, np.array([3, 3]))
    assert (values[0] == -OUT_OF_RANGE).all()
    assert token_ids[1].tolist() == [19999, 19998, 19997]


@pytest.mark.parametrize("spread", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.95, 0.9999])
def test_a_nucleus_is_the_smallest_set_that_reaches_its_mass(spread: float, share: float) -> None:
    rng = np.random.default_rng(3)
    gaps = rng.standard_normal(30000).astype(np.float32) * np.float32(spread)
    gaps -= gaps.max()
    mass = share * float(np.exp(gaps).sum(dtype=np.float64))
    cut, size = nucleus_cut(gaps, mass)
    falling = np.sort(gaps)[::-1]
    sums = np.exp(falling).cumsum(dtype=np.float64)
    expected = int(np.searchsorted(sums, mass))
    assert abs(size - 1 - expected) <= 1
    assert cut == falling[size - 1]


def test_weighted_choice_is_proportional() -> None:
    weights = np.array([0.0, 1.0, 3.0, 0.0, 4.0, 0.0], dtype=np.float32)
    drawn = [weighted_choice(weights, (index + 0.5) / 800) for index in range(800)]
    assert [drawn.count(index) for index in range(6)] == [0, 100, 300, 0, 400, 0]


@pytest.mark.parametrize("num_weights", [1, 2, 255, 256, 257, 49152, 50257])
def test_weighted_choice_never_takes_what_has_no_weight(num_weights: int) -> None:
    weights = np.zeros(num_weights, dtype=np.float32)
    weights[[0, num_weights // 2, num_weights - 1]] = 1e-3, 5.0, 1e-7
    for uniform in (0.0, 1e-9, 0.3, 0.99999, 1 - 2**-53):
        assert weights[weighted_choice(weights, uniform)] > 0


@pytest.mark.parametrize("num_tokens", [400, 5000, 49152, 50001])
@pytest.mark.parametrize("kind", ["smooth", "ties", "ruled out"])
def test_one_row_alone_gives_what_many_rows_give(num_tokens: int, kind: str) -> None:
    random = np.random.default_rng(num_tokens)
    row = random.standard_normal(num_tokens).astype(np.float32)
    if kind == "ties":
        row = np.round(row * 2) / 2
    elif kind == "ruled out":
        row[random.random(num_tokens) < 0.9] = -np.inf
    for top_k in (1, max_fast_top_k(num_tokens)):
        values, token_ids = top_candidates(row[np.newaxis], np.array([top_k]))
        expected = (values[0].tolist(), token_ids[0].tolist())
        assert top_of_row(row, top_k) == expected


def test_one_row_with_nothing_that_is_a_number_is_empty() -> None:
    assert top_of_row(np.full(5000, np.nan, dtype=np.float32), 5) == ([], [])
