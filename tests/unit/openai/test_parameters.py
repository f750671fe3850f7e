from __future__ import annotations

import pytest

from inference.domain.errors import UnsupportedParameter
from inference.openai.parameters import CHAT_REFUSALS, COMPLETION_REFUSALS
from tests.unit.openai.bodies import chat, chat_refusal, completion, completion_refusal

CHANGES_A_CHAT = [
    ("best_of", 2),
    ("functions", [{"name": "f"}]),
    ("jinja", False),
    ("function_call", {"name": "f"}),
    ("audio", {"voice": "a", "format": "mp3"}),
    ("modalities", ["text", "audio"]),
    ("prediction", {"type": "content"}),
    ("web_search_options", {}),
    ("guided_json", {}),
    ("guided_regex", "a"),
    ("adaptive", True),
    ("backend_sampling", True),
    ("moderation", {"a": 1}),
    ("prompt_cache_options", {"a": 1}),
    ("echo", True),
    ("n_predict", 5),
]


@pytest.mark.parametrize(("name", "value"), CHANGES_A_CHAT)
def test_a_parameter_that_would_change_the_answer_is_refused_by_name(name: str, value: object) -> None:
    error = chat_refusal(**{name: value})
    assert isinstance(error, UnsupportedParameter)
    assert error.param == name
    assert name in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_logprobs", 2)],
)
def test_the_same_for_completions(name: str, value: object) -> None:
    error = completion_refusal(**{name: value})
    assert isinstance(error, UnsupportedParameter)
    assert error.param == name


@pytest.mark.parametrize("value", [0, -1, "2", True, 1.0, 129])
def test_n_that_is_wrong_everywhere_is_invalid_and_not_unsupported(value: object) -> None:
    for error in (chat_refusal(n=value), completion_refusal(n=value)):
        assert error.code == "invalid_value"
        assert error.param == "n"


NEUTRAL = {
    "n": 1,
    "best_of": 1,
    "logprobs": False,
    "logit_bias": {},
    "tools": [],
    "tool_choice": "auto",
    "functions": [],
    "function_call": "none",
    "response_format": {"type": "text"},
    "modalities": ["text"],
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "dry": {"multiplier": 0, "base": 1.75},
    "xtc": {},
    "typical_p": 1,
    "top_nsigma": -1,
    "dynatemp_range": 0,
    "repeat_penalty": 1.0,
    "repetition_penalty": 1,
    "repeat_last_n": -1,
    "min_tokens": 0,
    "chat_template_kwargs": {},
    "echo": False,
    "skip_special_tokens": True,
}


def test_values_that_ask_for_nothing_pass() -> None:
    assert chat(**NEUTRAL).ignored_parameters == ()
    assert completion(n=1, best_of=1, echo=False, suffix="", logit_bias={}).ignored_parameters == ()


def test_null_asks_for_nothing() -> None:
    assert chat(**dict.fromkeys(CHAT_REFUSALS)).ignored_parameters == ()
    assert completion(**dict.fromkeys(COMPLETION_REFUSALS)).ignored_parameters == ()


def test_harmless_extras_are_taken_and_not_listed() -> None:
    request = chat(
        store=False,
        metadata={"a": "b"},
        service_tier="auto",
        parallel_tool_calls=True,
        prompt_cache_key="k",
        verbosity="low",
        reasoning_effort="high",
        safety_identifier="s",
        user="u",
    )
    assert request.ignored_parameters == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service_tier", "gold"),
        ("service_tier", 5),
        ("verbosity", "loud"),
        ("reasoning_effort", 1),
        ("safety_identifier", "x" * 65),
        ("user", 5),
        ("user", "a\0b"),
        ("user", "x" * 513),
        ("prompt_cache_key", ["k"]),
        ("prompt_cache_retention", "forever"),
        ("metadata", []),
        ("metadata", {"k": 1}),
        ("metadata", {"k" * 65: "v"}),
        ("metadata", {"k": "v" * 513}),
        ("metadata", {str(index): "v" for index in range(17)}),
        ("metadata", {"k": "\0"}),
    ],
)
def test_harmless_extras_must_still_be_of_their_kind(name: str, value: object) -> None:
    assert chat_refusal(**{name: value}).param == name
