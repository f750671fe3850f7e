"""Our stages beside llama.cpp's own samplers: what may be drawn, and how likely each token is."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import llama_cpp
import numpy as np
import pytest

from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage as Stage
from inference.engine.llama import LlamaModel
from inference.engine.llama.dry import Dry
from inference.engine.llama.pipeline import Pipeline
from inference.engine.llama.sampling import Sampler

NUM_TOKENS = 12_000
NUM_DRAWS = 250
OFF: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
XTC_NOW = (0.0,)


@contextmanager
def chain(*makers: Callable[[], Any]) -> Iterator[Any]:
    made = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for make in makers:
        llama_cpp.llama_sampler_chain_add(made, make())
    try:
        yield made
    finally:
        llama_cpp.llama_sampler_free(made)


def apply(sampler: Any, row: np.ndarray) -> tuple[dict[int, float], int]:
    """Logits that llama.cpp leaves, by token id, and the token that it selected (or -1)."""
    data = (llama_cpp.llama_token_data * len(row))()
    as_array = np.ctypeslib.as_array(data)
    as_array["id"], as_array["logit"] = np.arange(len(row)), row
    candidates = llama_cpp.llama_token_data_array(data, len(row), -1, False)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(candidates))
    left = [(candidates.data[i].id, candidates.data[i].logit) for i in range(candidates.size)]
    selected = candidates.data[candidates.selected].id if candidates.selected >= 0 else -1
    return {token_id: logit for token_id, logit in left if np.isfinite(logit)}, selected


def shares(logits: dict[int, float]) -> dict[int, float]:
    values = np.array(list(logits.values()), dtype=np.float64)
    weights = np.exp(values - values.max())
    return dict(zip(logits, (weights / weights.sum()).tolist(), strict=True))


def ours(params: SamplingParams, row: np.ndarray, *first: float) -> dict[int, float]:
    """How often each token is drawn when random numbers are spread evenly over [0, 1)."""
    pipeline = Sampler(params).pipeline
    assert pipeline is not None
    counts: Counter[int] = Counter()
    for number in range(NUM_DRAWS):
        numbers = iter((*first, (number + 0.5) / NUM_DRAWS))
        counts[pipeline.draw(row.copy(), lambda: next(numbers))] += 1  # noqa: B023
    return {token_id: count / NUM_DRAWS for token_id, count in counts.items()}


def check_alike(found: dict[int, float], expected: dict[int, float]) -> None:
    for token_id in found.keys() | expected.keys():
        # Even spreading is off by at most two draws.
        assert abs(found.get(token_id, 0) - expected.get(token_id, 0)) <= 2.1 / NUM_DRAWS, token_id


def make_row(seed: int, spread: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(NUM_TOKENS) * spread).astype(np.float32)


top_k = lambda k: lambda: llama_cpp.llama_sampler_init_top_k(k)  # noqa: E731
top_p = lambda p: lambda: llama_cpp.llama_sampler_init_top_p(p, 0)  # noqa: E731
min_p = lambda p: lambda: llama_cpp.llama_sampler_init_min_p(p, 0)  # noqa: E731
typical = lambda p: lambda: llama_cpp.llama_sampler_init_typical(p, 0)  # noqa: E731
sigma = lambda n: lambda: llama_cpp.llama_sampler_init_top_n_sigma(n)  # noqa: E731
temp = lambda t: lambda: llama_cpp.llama_sampler_init_temp(t)  # noqa: E731
temp_ext = lambda t, r, e: lambda: llama_cpp.llama_sampler_init_temp_ext(t, r, e)  # noqa: E731
xtc = lambda p, t: lambda: llama_cpp.llama_sampler_init_xtc(p, t, 0, 1)  # noqa: E731

CASES: dict[str, tuple[dict[str, Any], tuple[Any, ...], tuple[float, ...]]] = {
    "typical": ({"typical_p": 0.5}, (typical(0.5),), ()),
    "typical, top_k": ({"typical_p": 0.7, "top_k": 30}, (top_k(30), typical(0.7)), ()),
    "sigma": ({"top_n_sigma": 1.0}, (sigma(1.0),), ()),
    "sigma, temperature": ({"top_n_sigma": 1.5, "temperature": 2.0}, (sigma(1.5), temp(2.0)), ()),
    "dynamic": (
        {"temperature": 1.0, "dynatemp_range": 0.5, "top_k": 20},
        (top_k(20), temp_ext(1.0, 0.5, 1.0)),
        (),
    ),
    "dynamic, exponent, from 0": (
        {"temperature": 0.8, "dynatemp_range": 1.0, "dynatemp_exponent": 2.0, "top_k": 9},
        (top_k(9), temp_ext(0.8, 1.0, 2.0)),
        (),
    ),
    "xtc": (
        {"xtc_probability": 1.0, "xtc_threshold": 0.05, "top_k": 40},
        (top_k(40), xtc(1.0, 0.05)),
        XTC_NOW,
    ),
    "xtc of everything": ({"xtc_probability": 1.0, "xtc_threshold": 0.01}, (xtc(1.0, 0.01),), XTC_NOW),
    "temperature first": (
        {
            "temperature": 2.0,
            "top_p": 0.5,
            "min_p": 0.1,
            "stages": (Stage.TEMPERATURE, Stage.TOP_P, Stage.MIN_P),
        },
        (temp(2.0), top_p(0.5), min_p(0.1)),
        (),
    ),
    "backwards": (
        {
            "temperature": 1.5,
            "top_p": 0.9,
            "top_k": 12,
            "typical_p": 0.8,
            "stages": (Stage.TYPICAL_P, Stage.TOP_P, Stage.TOP_K, Stage.TEMPERATURE),
        },
        (typical(0.8), top_p(0.9), top_k(12), temp(1.5)),
        (),
    ),
    "everything": (
        {
            "top_n_sigma": 2.0,
            "top_k": 25,
            "typical_p": 0.9,
            "top_p": 0.95,
            "min_p": 0.02,
            "xtc_probability": 1.0,
            "xtc_threshold": 0.1,
            "temperature": 1.3,
        },
        (sigma(2.0), top_k(25), typical(0.9), top_p(0.95), min_p(0.02), xtc(1.0, 0.1), temp(1.3)),
        XTC_NOW,
    ),
    "greedy after xtc": (
        {"temperature": 0.0, "xtc_probability": 1.0, "xtc_threshold": 0.02},
        (xtc(1.0, 0.02), temp(0.0)),
        XTC_NOW,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_stages_leave_what_llama_cpp_leaves(name: str, seed: int) -> None:
    fields, makers, first = CASES[name]
    row = make_row(seed)
    with chain(*makers) as reference:
        expected = shares(apply(reference, row)[0])
    check_alike(ours(SamplingParams(**{**OFF, **fields}), row, *first), expected)


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("entropy", [2.0, 5.0, 8.0])
def test_mirostat_cuts_where_llama_cpp_cuts_and_moves_alike(mode: int, entropy: float) -> None:
    params = SamplingParams(
        **{**OFF, "mirostat_mode": mode, "mirostat_entropy": entropy, "mirostat_learning_rate": 0.3}
    )
    make = (
        (lambda: llama_cpp.llama_sampler_init_mirostat(NUM_TOKENS, 7, entropy, 0.3, 100))
        if mode == 1
        else (lambda: llama_cpp.llama_sampler_init_mirostat_v2(7, entropy, 0.3))
    )
    follower = Sampler(params)
    assert follower.pipeline is not None
    with chain(make) as reference:
        for step in range(12):
            row = make_row(step, spread=1.5 + step % 3)
            left, selected = apply(reference, row)
            likely = sorted(shares(left).items(), key=lambda pair: (-pair[1], pair[0]))
            before = sum(share for _, share in likely[: [one for one, _ in likely].index(selected)])
            # A random number in the middle of what is drawn as the same token.
            middle = before + dict(likely)[selected] / 2
            assert follower.pipeline.draw(row.copy(), lambda: middle) == selected, step  # noqa: B023


@pytest.mark.parametrize("allowed", [1, 2, 3])
@pytest.mark.parametrize("window", [16, 64, 500])
def test_dry_takes_what_llama_cpp_takes(model: LlamaModel, allowed: int, window: int) -> None:
    breakers = ("\n", ":")
    tokenizer = model.tokenizer
    words = [
        tokenizer.tokenize(word, add_special=False, parse_special=False)[0] for word in (" a", " b", ":")
    ]
    chance = np.random.default_rng(allowed * 1000 + window)
    tokens = chance.choice(words, 300, p=[0.5, 0.4, 0.1]).tolist()
    params = SamplingParams(
        dry_multiplier=0.8,
        dry_allowed_length=allowed,
        dry_penalty_last_n=window,
        dry_sequence_breakers=breakers,
    )
    encoded = (ctypes.c_char_p * 2)(*[breaker.encode() for breaker in breakers])
    make = lambda: llama_cpp.llama_sampler_init_dry(  # noqa: E731
        tokenizer._vocabulary, 0.8, 1.75, allowed, window, encoded, 2
    )
    grown = Dry(params, (), tokenizer.pieces)
    num_penalties = 0
    with chain(make) as reference:
        for count, token_id in enumerate(tokens, start=1):
            llama_cpp.llama_sampler_accept(reference, token_id)
            grown.accept(token_id)
            if count % 10:
                continue
            row = np.zeros(tokenizer.num_tokens, dtype=np.float32)
            expected, _ = apply(reference, row)
            from_prompt = row.copy()
            Dry(params, tokens[:count], tokenizer.pieces).change(from_prompt)
            grown.change(row)
            for word in words:
                assert row[word] == pytest.approx(expected[word], rel=1e-4), count
                assert from_prompt[word] == pytest.approx(expected[word], rel=1e-4), count
            num_penalties += int((row < 0).sum())
            assert set(np.flatnonzero(row)) <= set(words)
    assert num_penalties > 10


def test_random_numbers_are_the_sequences_own() -> None:
    row = make_row(3)
    params = SamplingParams(typical_p=0.9, xtc_probability=0.5, seed=5)
    one, other = Sampler(params), Sampler(params)
    numbers = cycle([0.3, 0.6])
    draws: list[list[int]] = [[], []]
    for _ in range(20):
        for drawn, sampler in zip(draws, (one, other), strict=True):
            assert isinstance(sampler.pipeline, Pipeline)
            drawn.append(sampler.pipeline.draw(row.copy(), sampler.uniform))
        next(numbers)
    assert draws[0] == draws[1]
    assert len(set(draws[0])) > 1
