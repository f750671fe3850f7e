from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from inference.domain.requests import SamplingParams
from inference.engine.llama.penalties import Penalties

NUM_TOKENS = 50


def by_definition(logits: np.ndarray, params: SamplingParams, prompt: list[int], answer: list[int]) -> list:
    """Step by step as the words say, in double precision."""
    size = params.repeat_last_n if params.repeat_last_n >= 0 else len(prompt) + len(answer)
    window = ([(one, False) for one in prompt] + [(one, True) for one in answer])[-size:] if size else []
    seen = {one for one, _ in window}
    counts = Counter(one for one, is_answer in window if is_answer)
    expected = logits.astype(float).tolist()
    for one in range(NUM_TOKENS):
        if one in seen:
            value = expected[one]
            expected[one] = value / params.repeat_penalty if value > 0 else value * params.repeat_penalty
        if counts[one]:
            expected[one] -= counts[one] * params.frequency_penalty + params.presence_penalty
    return expected


@pytest.mark.parametrize("window", [-1, 0, 1, 3, 7, 100])
@pytest.mark.parametrize(
    ("repeat", "frequency", "presence"),
    [(1.3, 0.0, 0.0), (0.5, 0.0, 0.0), (1.0, 0.4, 0.0), (1.0, 0.0, -0.7), (1.2, 0.3, 0.5)],
)
def test_what_is_taken_is_what_the_words_say(
    window: int, repeat: float, frequency: float, presence: float
) -> None:
    rng = np.random.default_rng(window + 5)
    params = SamplingParams(
        repeat_penalty=repeat,
        frequency_penalty=frequency,
        presence_penalty=presence,
        repeat_last_n=window,
    )
    prompt = rng.integers(0, NUM_TOKENS, 9).tolist()
    penalties = Penalties.of(params, tuple(prompt))
    answer: list[int] = []
    for _ in range(40):
        logits = rng.normal(0, 4, NUM_TOKENS).astype(np.float32)
        expected = by_definition(logits, params, prompt, answer)
        if penalties is not None:
            penalties.change(logits)
        assert logits.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)
        answer.append(int(rng.integers(0, NUM_TOKENS)))
        if penalties is not None:
            penalties.accept(answer[-1])
    assert (penalties is None) is (window == 0)


def test_nothing_is_kept_for_those_who_ask_for_none() -> None:
    assert Penalties.of(SamplingParams(repeat_last_n=64), (1, 2)) is None


def test_a_banned_token_stays_banned() -> None:
    logits = np.full(NUM_TOKENS, -math.inf, dtype=np.float32)
    logits[0] = 1.0
    penalties = Penalties(SamplingParams(repeat_penalty=1.5), (0, 1))
    penalties.change(logits)
    assert logits[1] == -math.inf
    assert logits[0] == pytest.approx(1 / 1.5)
