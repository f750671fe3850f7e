from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage as Stage
from inference.engine.llama.sampling import Sampler, draw_tokens
from inference.engine.plan import NOTHING_DRAWN

NUM_TOKENS = 5000
PIECES = [b"x"] * NUM_TOKENS
NEUTRAL: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
RARE: dict[str, dict[str, Any]] = {
    "typical": {"typical_p": 0.5},
    "typical 0": {"typical_p": 0.0},
    "sigma": {"top_n_sigma": 0.5},
    "dynamic": {"dynatemp_range": 0.5},
    "dynamic from 0": {"dynatemp_range": 2.0, "dynatemp_exponent": 100.0},
    "xtc": {"xtc_probability": 1.0, "xtc_threshold": 0.0},
    "dry": {"dry_multiplier": 100.0, "dry_base": 100.0, "dry_penalty_last_n": -1},
    "dry of everything": {"dry_multiplier": 1.0, "dry_allowed_length": 0},
    "mirostat 1": {"mirostat_mode": 1},
    "mirostat 2": {"mirostat_mode": 2},
    "mirostat of nothing": {"mirostat_mode": 1, "mirostat_entropy": 0.0, "mirostat_learning_rate": 1.0},
    "mirostat of all": {"mirostat_mode": 2, "mirostat_entropy": 100.0, "mirostat_learning_rate": 1.0},
    "order": {"stages": (Stage.TEMPERATURE, Stage.MIN_P, Stage.PENALTIES), "repeat_penalty": 1.5},
    "order without temperature": {"stages": (Stage.TOP_P, Stage.TOP_K)},
}


def make_sampler(fields: dict[str, Any], **more: Any) -> Sampler:
    return Sampler(SamplingParams(seed=5, **fields), pieces=PIECES, prompt_token_ids=(1, 2, 1, 2), **more)


@pytest.mark.parametrize("name", RARE)
@pytest.mark.parametrize("spread", [0.0, 3.0, 1000.0])
def test_every_stage_draws_a_token_from_any_logits(name: str, spread: float) -> None:
    rng = np.random.default_rng(1)
    for base in ({}, NEUTRAL):
        sampler = make_sampler({**base, **RARE[name]})
        assert sampler.pipeline is not None or "order" in name
        for _ in range(10):
            row = (rng.standard_normal((1, NUM_TOKENS)) * spread).astype(np.float32)
            assert 0 <= draw_tokens(row, [sampler])[0] < NUM_TOKENS


@pytest.mark.parametrize("name", RARE)
def test_what_is_banned_is_never_drawn_and_what_is_no_number_draws_nothing(name: str) -> None:
    sampler = make_sampler(RARE[name], banned_token_ids=np.array([7]))
    row = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    row[0, 7:9] = 90.0, 80.0
    for _ in range(10):
        assert draw_tokens(row.copy(), [sampler])[0] not in (7, NOTHING_DRAWN)
    for value in (math.nan, math.inf, -math.inf):
        assert draw_tokens(np.full_like(row, value), [sampler]) == [NOTHING_DRAWN]
    only = np.full_like(row, -math.inf)
    only[0, 9] = 1.0
    assert draw_tokens(only, [sampler]) == [9]


@pytest.mark.parametrize("name", RARE)
def test_a_seed_repeats_itself_and_company_changes_nothing(name: str) -> None:
    rows = [np.random.default_rng(i).standard_normal((3, NUM_TOKENS)).astype(np.float32) for i in range(8)]
    alone = make_sampler(RARE[name])
    lonely = [draw_tokens(row[1:2].copy(), [alone])[0] for row in rows]
    fast, rare, greedy = (
        Sampler(SamplingParams(seed=1)),
        make_sampler(RARE[name]),
        Sampler(SamplingParams(temperature=0)),
    )
    assert [draw_tokens(row.copy(), [fast, rare, greedy])[1] for row in rows] == lonely


def test_xtc_leaves_the_least_likely_of_the_likely_as_often_as_asked() -> None:
    row = np.full((1, NUM_TOKENS), -50.0, dtype=np.float32)
    row[0, :3] = np.log([0.6, 0.3, 0.1])
    sampler = make_sampler({**NEUTRAL, "xtc_probability": 0.4, "xtc_threshold": 0.2})
    counts = Counter(draw_tokens(row.copy(), [sampler])[0] for _ in range(3000))
    # 0.6 · (0.6, 0.3, 0.1) + 0.4 · (0, 0.75, 0.25)
    for token_id, share in enumerate((0.36, 0.48, 0.16)):
        assert counts[token_id] / 3000 == pytest.approx(share, abs=0.03)


def test_penalties_in_another_place_see_what_is_left() -> None:
    row = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    row[0, [1, 2, 3]] = 10.0, 9.0, 8.0
    fields = {**NEUTRAL, "top_k": 2, "temperature": 0.0, "repeat_penalty": 5.0}
    first = make_sampler({**fields, "stages": (Stage.PENALTIES, Stage.TOP_K, Stage.TEMPERATURE)})
    last = make_sampler({**fields, "stages": (Stage.TOP_K, Stage.PENALTIES, Stage.TEMPERATURE)})
    assert first.pipeline is None
    assert draw_tokens(row.copy(), [first]) == [3]
    assert draw_tokens(row.copy(), [last]) == [1]


def test_dry_breaks_a_loop_but_not_at_a_breaker() -> None:
    row = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    row[0, [11, 12, 13]] = 5.0, 4.0, 3.0
    fields = {**NEUTRAL, "temperature": 0.0, "dry_multiplier": 2.0}

    def draw(piece: bytes, fields: dict[str, Any]) -> int:
        pieces = [*PIECES]
        pieces[11] = piece
        sampler = Sampler(SamplingParams(**fields), prompt_token_ids=(8, 9, 11, 7, 8, 9), pieces=pieces)
        return draw_tokens(row.copy(), [sampler])[0]

    assert draw(b"x", fields) == 12
    assert draw(b"a\nb", fields) == 11
    assert draw(b"x", {**fields, "dry_allowed_length": 3}) == 11
    assert draw(b"x", {**fields, "dry_penalty_last_n": 3}) == 11
    assert draw(b"x", {**fields, "dry_sequence_breakers": ("xx",)}) == 11


@pytest.mark.parametrize("mode", [1, 2])
def test_mirostat_holds_the_surprise_where_it_is_asked_to(mode: int) -> None:
    means = []
    for target in (2.0, 6.0):
        rng = np.random.default_rng(2)
        sampler = make_sampler({**NEUTRAL, "mirostat_mode": mode, "mirostat_entropy": target})
        surprises = []
        for _ in range(250):
            row = (rng.standard_normal((1, NUM_TOKENS)) * 3).astype(np.float32)
            token_id = draw_tokens(row.copy(), [sampler])[0]
            shares = np.exp(row[0] - row.max())
            surprises.append(-math.log2(shares[token_id] / shares.sum()))
        means.append(float(np.mean(surprises[50:])))
    # Measured on the whole distribution, where tokens are more surprising than on what the cut left.
    assert means[0] + 2 < means[1]
    assert 2.0 < means[0] < 6.0 < means[1] < 10.0
