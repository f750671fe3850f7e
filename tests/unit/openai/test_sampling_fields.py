from __future__ import annotations

import pytest

from tests.unit.openai.bodies import chat, chat_refusal, completion, completion_refusal


def test_repeat_penalty_has_two_names_that_must_agree() -> None:
    assert chat(repeat_penalty=1.1).sampling.repeat_penalty == 1.1
    assert chat(repetition_penalty=1.2).sampling.repeat_penalty == 1.2
    assert completion(repetition_penalty=1.2, repeat_penalty=1.2).sampling.repeat_penalty == 1.2
    assert chat(repetition_penalty=None, repeat_penalty=1.3).sampling.repeat_penalty == 1.3
    assert chat_refusal(repeat_penalty=1.1, repetition_penalty=1.2).param == "repetition_penalty"


def test_logit_bias_is_pairs_of_token_ids_and_numbers() -> None:
    assert chat(logit_bias={"5": 1, "0": -100, "17": 2.5}).sampling.logit_bias == (
        (5, 1.0),
        (0, -100.0),
        (17, 2.5),
    )
    assert chat(logit_bias={}).sampling.logit_bias == chat(logit_bias=None).sampling.logit_bias == ()
    assert len(completion(logit_bias={str(i): 1 for i in range(256)}).sampling.logit_bias) == 256


@pytest.mark.parametrize(
    "bias",
    [
        {"AI": -100},
        {"-1": 5},
        {"+1": 5},
        {"05": 5},
        {"": 5},
        {"1.5": 1},
        {" 5": 1},
        {"5\n": 1},
        {"\u0665": 1},
        {"9" * 11: 1},
        {"5": 100.5},
        {"5": -101},
        {"5": "x"},
        {"5": None},
        {"5": True},
        {"5": [1]},
        {str(i): 1 for i in range(257)},
        [[5, 1]],
        "x",
        5,
        True,
    ],
)
def test_wrong_biases(bias: object) -> None:
    for error in (chat_refusal(logit_bias=bias), completion_refusal(logit_bias=bias)):
        assert (error.param, error.code) == ("logit_bias", "invalid_value")


@pytest.mark.parametrize("value", [-1, 1.0, "3", True, 2**31])
def test_min_tokens_is_a_count(value: object) -> None:
    assert chat(min_tokens=3).min_tokens == 3
    assert completion(min_tokens=None).min_tokens == 0
    assert chat_refusal(min_tokens=value).param == "min_tokens"
