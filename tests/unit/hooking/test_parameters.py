from __future__ import annotations

import math
from typing import Any

import pytest

from hooks.contracts.view import ParameterValue
from inference.hooking.parameters import (
    ParameterRefused,
    parameter_fault,
    request_parameters,
    with_parameters,
)
from inference.openai.protocol import OutputRequest
from tests.unit.hooking import requests


def set_in(request: OutputRequest, endpoint: str = "chat.completions", **values: ParameterValue) -> Any:
    before = request_parameters(request)
    return with_parameters(request, endpoint, before, {**before, **values})


def test_what_is_set_is_as_if_the_client_had_sent_it() -> None:
    changed = set_in(
        requests.chat(temperature=1.5, top_p=0.5), temperature=0.2, max_tokens=5, seed=9, top_k=3
    )
    sampling = changed.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed) == (0.2, 0.5, 3, 9)
    assert changed.max_tokens == 5


def test_nothing_that_was_said_before_is_no_change() -> None:
    asked = requests.chat(temperature=0.5)
    assert set_in(asked, temperature=0.5) is asked


def test_none_and_nothing_take_a_parameter_away() -> None:
    asked = requests.chat(temperature=0.5, max_tokens=9, n=2, seed=3, ignore_eos=True)
    gone = with_parameters(asked, "", request_parameters(asked), {"seed": None})
    assert gone == with_parameters(asked, "", request_parameters(asked), {})
    assert (gone.sampling.temperature, gone.sampling.seed) == (None, None)
    assert (gone.max_tokens, gone.num_choices, gone.ignore_eos) == (None, 1, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 2.5),
        ("temperature", "hot"),
        ("temperature", True),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("max_tokens", 0),
        ("max_tokens", 2**31),
        ("max_tokens", 1.5),
        ("max_tokens", "many"),
        ("top_k", -1),
        ("n", 0),
        ("n", 2),
        ("reasoning_effort", "enormous"),
        ("parallel_tool_calls", "no"),
        ("stream", True),
        ("model", "other"),
        ("messages", "x"),
        ("no_such_thing", 1),
    ],
)
def test_what_no_client_could_send_is_refused(name: str, value: ParameterValue) -> None:
    with pytest.raises(ParameterRefused):
        set_in(requests.chat(), **{name: value})


def test_whole_numbers_may_be_written_as_any() -> None:
    assert set_in(requests.chat(), max_tokens=100.0).max_tokens == 100


def test_a_limit_below_min_tokens_takes_it_along() -> None:
    changed = set_in(requests.chat(min_tokens=50, max_tokens=100), max_tokens=10)
    assert (changed.max_tokens, changed.min_tokens) == (10, 10)
    assert set_in(requests.chat(max_tokens=10), min_tokens=50).min_tokens == 10


def test_what_cannot_be_beside_a_policys_value_is_moot() -> None:
    changed = set_in(requests.chat(mirostat=2, temperature=1), temperature=0)
    assert (changed.sampling.temperature, changed.sampling.mirostat_mode) == (0, None)


def test_other_names_of_a_parameter_are_known() -> None:
    assert set_in(requests.chat(), repetition_penalty=1.2).sampling.repeat_penalty == 1.2


def test_answers_and_alternatives_become_fewer_and_never_more() -> None:
    changed = set_in(requests.completion(n=3, best_of=3), "completions", n=1)
    assert (changed.num_choices, changed.best_of) == (1, 1)
    changed = set_in(requests.completion(n=2, best_of=5), "completions", n=1)
    assert (changed.num_choices, changed.best_of) == (1, 5)
    assert set_in(requests.completion(n=1, best_of=5), "completions", best_of=1).best_of == 1
    changed = set_in(requests.chat(logprobs=True, top_logprobs=5), top_logprobs=2)
    assert changed.num_top_logprobs == 2
    assert set_in(requests.chat(), top_logprobs=0).num_top_logprobs is None


def test_an_echo_may_be_all() -> None:
    assert set_in(requests.completion(echo=True, max_tokens=5), "completions", max_tokens=0).max_tokens == 0


def test_anthropics_wire_has_its_own_range() -> None:
    with pytest.raises(ParameterRefused):
        set_in(requests.message(), "messages", temperature=1.5)
    assert set_in(requests.message(), "messages", temperature=1.0).sampling.temperature == 1


def test_thinking_and_calls() -> None:
    changed = set_in(
        requests.chat(), reasoning_effort="low", enable_thinking=False, parallel_tool_calls=False
    )
    assert (changed.reasoning.effort, changed.reasoning.is_enabled) == ("low", False)
    assert not changed.tool_use.is_parallel


def test_who_writes_a_policy_is_told_what_cannot_be_set() -> None:
    assert parameter_fault("temperature", 0.5) == ""
    assert parameter_fault("max_tokens", 100.0) == ""
    assert parameter_fault("n", 2) == ""
    assert "between 0 and 2" in parameter_fault("temperature", 3)
    assert "cannot set" in parameter_fault("stream", True)
