from __future__ import annotations

import math

import numpy as np
import pytest

from inference.domain.logprobs import MIN_LOGPROB
from inference.engine.llama.logprobs import RawRow, raw_rows


@pytest.mark.parametrize("size", [3, 1000, 20_000])
def test_they_are_the_logarithms_of_the_softmax_over_everything(size: int) -> None:
    logits = np.random.default_rng(1).normal(0, 5, size).astype(np.float32)
    exact = logits.astype(np.float64) - math.log(np.exp(logits.astype(np.float64)).sum())
    row = RawRow(logits, 20)
    for token_id in (0, 1, size - 1):
        found = row.of(token_id)
        assert found.logprob == pytest.approx(exact[token_id], abs=1e-4)
        assert [one for one, _ in found.top] == np.argsort(-exact)[:20].tolist()
        assert [value for _, value in found.top] == pytest.approx(np.sort(exact)[::-1][:20], abs=1e-4)


def test_they_are_those_from_before_the_row_was_changed() -> None:
    logits = np.zeros(100, dtype=np.float32)
    row = RawRow(logits, 0)
    logits[7] = -math.inf
    assert row.of(7).logprob == pytest.approx(-math.log(100), abs=1e-6)
    assert row.of(7).top == ()


def test_only_rows_that_are_asked_for_are_read() -> None:
    rows = raw_rows(np.zeros((3, 50), dtype=np.float32), [None, 0, 2])
    assert rows.keys() == {1, 2}
    assert [token_id for token_id, _ in rows[2].of(0).top] == [0, 1]


def test_what_is_impossible_stays_a_number_and_certainty_is_zero() -> None:
    logits = np.full(50, -math.inf, dtype=np.float32)
    logits[3] = 8.0
    row = RawRow(logits, 2)
    assert row.of(3).logprob == 0.0
    assert row.of(4).logprob == MIN_LOGPROB
    assert all(MIN_LOGPROB <= value <= 0 for _, value in row.of(3).top)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_do_no_harm(value: float) -> None:
    RawRow(np.full(50, value, dtype=np.float32), 5)
