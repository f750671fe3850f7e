from __future__ import annotations

import json

import pytest

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.openai.protocol import choice_seed, fold_seed
from inference.openai.validation import MAX_STOP_CHARS, parse_chat_request, parse_completion_request
from tests.unit.openai.bodies import chat, chat_refusal, completion, completion_refusal, user


def test_a_plain_chat_request_leaves_all_to_the_defaults() -> None:
    request = chat()
    assert request.model == "m"
    assert [message.content for message in request.messages] == ["Say hi"]
    assert request.max_tokens is None
    assert request.sampling.temperature is None
    assert request.stop is None
    assert not request.is_stream
    assert not request.wants_usage
    assert not request.ignore_eos
    assert request.ignored_parameters == ()


def test_a_full_chat_request_keeps_what_was_sent() -> None:
    request = chat(
        temperature=0.5,
        top_p=0.25,
        top_k=7,
        min_p=0.125,
        presence_penalty=-2,
        frequency_penalty=2,
        seed=0,
        stop=["a", "b"],
        max_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
        ignore_eos=True,
        user="someone",
        metadata={"k": "v"},
        prompt_cache_key="key",
        prompt_cache_retention="24h",
    )
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.25, 7, 0.125)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.seed) == (-2.0, 2.0, 0)
    assert (request.stop, request.max_tokens, request.ignore_eos) == (("a", "b"), 5, True)
    assert (request.is_stream, request.wants_usage) == (True, True)
    assert (request.user, request.metadata) == ("someone", {"k": "v"})
    assert (request.prompt_cache_key, request.prompt_cache_retention) == ("key", "24h")


RANGES = {
    "temperature": ("-1e-3", "2.001"),
    "top_p": ("-0.1", "1.001"),
    "min_p": ("-0.1", "1.001"),
    "presence_penalty": ("-2.1", "2.1"),
    "frequency_penalty": ("-2.1", "2.1"),
    "repeat_penalty": ("0", "-1", "100.1"),
    "repetition_penalty": ("0", "100.1"),
    "repeat_last_n": ("-2", "1.5", "2147483648"),
    "top_k": ("-1", "2147483648"),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e400", '"nan"', "1e9", "true", "[]", "{}", '"1"']
)
def test_no_sampling_value_outside_its_kind_and_range_comes_through(name: str, value: str) -> None:
    for wrong in (value, *RANGES[name]):
        body = f'{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"{name}":{wrong}}}'
        with pytest.raises(InvalidRequest) as caught:
            parse_chat_request(body.encode(), strict_fields=False)
        if not ("NaN" in wrong or "Inf" in wrong or "e400" in wrong):  # those are no JSON at all
            assert caught.value.param == name


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", (0, 2, 1.5)),
        ("top_p", (0, 1)),
        ("min_p", (0, 1)),
        ("top_k", (0, 1, 2**31 - 1)),
        ("presence_penalty", (-2, 2)),
        ("frequency_penalty", (-2, 2)),
        ("seed", (0, -1, -(2**63), 2**63 - 1)),
    ],
)
def test_the_ends_of_a_range_belong_to_it(name: str, values: tuple[float, ...]) -> None:
    for value in values:
        assert getattr(chat(**{name: value}).sampling, name) == value


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1.0, "1", True])
def test_seeds_are_64_bit_integers(value: object) -> None:
    assert chat_refusal(seed=value).param == "seed"


@pytest.mark.parametrize("value", [0, -1, 1.5, 5.0, "5", True, 10**30, 2**31])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_token_limits_are_positive_32_bit_integers(name: str, value: object) -> None:
    assert chat_refusal(**{name: value}).param == name
    if name == "max_tokens":
        assert completion_refusal(max_tokens=value).param == name


def test_max_completion_tokens_wins_in_chat() -> None:
    assert chat(max_tokens=5).max_tokens == 5
    assert chat(max_completion_tokens=3).max_tokens == 3
    assert chat(max_tokens=5, max_completion_tokens=9).max_tokens == 9
    assert chat(max_tokens=2**31 - 1).max_tokens == 2**31 - 1


def test_completions_refuse_max_completion_tokens_instead_of_stopping_at_16() -> None:
    error = completion_refusal(max_completion_tokens=100)
    assert isinstance(error, UnsupportedParameter)
    assert error.param == "max_completion_tokens"


def test_stop_shapes() -> None:
    assert chat(stop=None).stop is None
    assert chat(stop=[]).stop == ()
    assert chat(stop="zzz").stop == chat(stop=["zzz"]).stop == ("zzz",)
    assert chat(stop=["b", "a", "b"]).stop == ("b", "a")
    assert chat(stop=["x" * MAX_STOP_CHARS] * 4).stop == ("x" * MAX_STOP_CHARS,)


@pytest.mark.parametrize(
    "stop",
    ["", [""], ["a", ""], 5, {"a": 1}, [1, 2], [None], [["x"]], ["a"] * 5, True, "x" * (MAX_STOP_CHARS + 1)],
)
def test_wrong_stops(stop: object) -> None:
    assert chat_refusal(stop=stop).param == "stop"
    assert completion_refusal(stop=stop).param == "stop"


@pytest.mark.parametrize("model", [None, "", "  ", 5, ["a"], "a" * 100_000, "x\0"])
def test_wrong_models(model: object) -> None:
    assert chat_refusal(model=model).param == "model"
    assert completion_refusal(model=model).param == "model"


def test_a_missing_model_or_prompt_is_named() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_chat_request(json.dumps({"messages": user()}).encode(), strict_fields=False)
    assert caught.value.param == "model"
    with pytest.raises(InvalidRequest) as caught:
        parse_completion_request(b'{"model":"m"}', strict_fields=False)
    assert caught.value.param == "prompt"


def test_stream_options() -> None:
    assert not chat(stream=True, stream_options=None).wants_usage
    assert not chat(stream=True, stream_options={}).wants_usage
    assert not chat(stream=True, stream_options={"include_usage": None}).wants_usage
    request = chat(
        stream=True, stream_options={"include_usage": True, "include_obfuscation": False, "other": 1}
    )
    assert request.wants_usage
    assert request.ignored_parameters == ("stream_options.other",)
    assert chat_refusal(stream_options={"include_usage": True}).param == "stream_options"
    assert chat_refusal(stream=True, stream_options=5).param == "stream_options"
    wrong = chat_refusal(stream=True, stream_options={"include_usage": "yes"})
    assert wrong.param == "stream_options.include_usage"


def test_logprobs_of_a_chat_are_a_flag_and_a_number() -> None:
    assert chat().num_top_logprobs is chat(logprobs=False).num_top_logprobs is None
    assert chat(logprobs=True).num_top_logprobs == 0
    assert chat(logprobs=True, top_logprobs=20).num_top_logprobs == 20
    assert chat(logprobs=False, top_logprobs=None).num_top_logprobs is None
    for wrong in (-1, 21, True, 1.0, "2"):
        assert chat_refusal(logprobs=True, top_logprobs=wrong).param == "top_logprobs"
    for wrong in (1, 0, "true", []):
        assert chat_refusal(logprobs=wrong).param == "logprobs"
    for asked in ({}, {"logprobs": False}, {"logprobs": None}):
        assert chat_refusal(top_logprobs=2, **asked).param == "top_logprobs"


def test_logprobs_of_a_completion_are_a_number() -> None:
    assert completion().num_top_logprobs is None
    assert [completion(logprobs=one).num_top_logprobs for one in (0, 5)] == [0, 5]
    for wrong in (-1, 6, True, False, 1.0, "2"):
        assert completion_refusal(logprobs=wrong).param == "logprobs"


@pytest.mark.parametrize("name", ["stream", "ignore_eos", "store", "parallel_tool_calls"])
def test_flags_are_booleans(name: str) -> None:
    chat(**{name: True})
    chat(**{name: None})
    for wrong in (1, 0, "true", []):
        assert chat_refusal(**{name: wrong}).param == name


def test_completion_prompts() -> None:
    assert completion(prompt="Once").prompts == ("Once",)
    assert completion(prompt=" ").prompts == (" ",)
    assert completion(prompt=["Once"]).prompts == ("Once",)
    assert completion(prompt=["a", "b", "a"]).prompts == ("a", "b", "a")
    assert completion(prompt=[1, 2, 3]).prompts == ((1, 2, 3),)
    assert completion(prompt=[[1, 2, 3]]).prompts == ((1, 2, 3),)
    assert completion(prompt=[[1, 2, 3], [4]]).prompts == ((1, 2, 3), (4,))


@pytest.mark.parametrize(
    "prompt", [None, "", [""], [], [[]], 5, {"a": 1}, True, [1, "a"], [1, True], [-1], [1.0], [None]]
)
def test_wrong_prompts(prompt: object) -> None:
    assert completion_refusal(prompt=prompt).param == "prompt"


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (["", "x"], "prompt[0]"),
        (["x", ""], "prompt[1]"),
        (["x", [1]], "prompt[1]"),
        (["x", 1], "prompt[1]"),
        (["x", None], "prompt[1]"),
        ([[1], "x"], "prompt[1]"),
        ([[1], 2], "prompt[1]"),
        ([[1], []], "prompt[1]"),
        ([[1], [-1]], "prompt[1]"),
        ([[1], ["x"]], "prompt[1]"),
        ([[1], [[1]]], "prompt[1]"),
        (["x"] * 2049, "prompt"),
    ],
)
def test_a_wrong_one_of_several_prompts_is_named(prompt: object, param: str) -> None:
    assert completion_refusal(prompt=prompt).param == param


def test_how_many_answers() -> None:
    assert (chat().num_choices, chat(n=None).num_choices, chat(n=128).num_choices) == (1, 1, 128)
    assert (completion().num_choices, completion().best_of, completion().num_answers) == (1, 1, 1)
    asked = completion(prompt=["a", "b"], n=2, best_of=5)
    assert (asked.num_choices, asked.best_of, asked.num_answers) == (2, 5, 4)
    assert completion(n=3).best_of == 3
    assert completion(n=3, best_of=3, stream=True).best_of == 3


@pytest.mark.parametrize("fields", [{"n": 3, "best_of": 2}, {"best_of": 2, "stream": True}, {"best_of": 0}])
def test_best_of_generates_at_least_n_and_is_not_streamed(fields: dict[str, object]) -> None:
    assert completion_refusal(**fields).param == "best_of"


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 2, 2**32, -1, 2**63 - 1, -(2**63)])
def test_choices_have_seeds_of_their_own(seed: int) -> None:
    seeds = [choice_seed(fold_seed(seed), index) for index in range(128)]
    assert seeds[0] == fold_seed(seed)
    assert len(set(seeds)) == 128
    if 0 <= seed < 2**31:
        assert seeds == [fold_seed(seed + index) for index in range(128)]
    assert choice_seed(None, 5) is None


def test_unknown_fields_are_listed_in_a_form_that_fits_a_header() -> None:
    request = chat(frobnicate=1, **{"a\r\nb: c": 2, "é" * 200: 3, "": 4})
    assert request.ignored_parameters == ("frobnicate", "a??b??c", "?" * 64, "?")
    many = chat(**{f"x{index}": 1 for index in range(1000)}).ignored_parameters
    assert len(many) == 16


def test_unknown_fields_are_refused_when_fields_are_strict() -> None:
    body = json.dumps({"model": "m", "messages": user(), "frobnicate": 1}).encode()
    with pytest.raises(InvalidRequest) as caught:
        parse_chat_request(body, strict_fields=True)
    assert caught.value.param == "frobnicate"
    body = json.dumps({"model": "m", "messages": user(), "user": "u", "n": 1, "tools": []}).encode()
    assert parse_chat_request(body, strict_fields=True).user == "u"


def test_an_unknown_null_field_is_still_unknown() -> None:
    assert chat(frobnicate=None).ignored_parameters == ("frobnicate",)


def test_values_of_the_wrong_kind_are_not_repeated_in_the_message() -> None:
    error = chat_refusal(temperature="my secret")
    assert "my secret" not in error.message
    assert "a string" in error.message
