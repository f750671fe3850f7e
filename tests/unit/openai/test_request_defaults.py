"""What administrators write down as defaults: read as requests are, filled in where requests say nothing."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.domain.constraint import AnyJson, Grammar, JsonSchema
from inference.domain.errors import InvalidRequest
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage
from inference.openai.chat_defaults import ChatDefaults
from inference.openai.output_defaults import OutputDefaults, filled_sampling
from inference.openai.protocol import (
    DEFAULT_CHAT_TOKENS,
    DEFAULT_COMPLETION_TOKENS,
    INTEGERS,
    RANGES,
    ChatRequest,
    CompletionRequest,
    SamplingRequest,
)
from inference.openai.request_defaults import (
    RequestDefaults,
    parse_chat_defaults,
    parse_completion_defaults,
    parse_request_defaults,
)
from inference.openai.validation import parse_chat_request, parse_completion_request

HELLO = {"role": "user", "content": "hi"}


def chat(**members: Any) -> ChatRequest:
    body = {"model": "m", "messages": [HELLO], **members}
    return parse_chat_request(json.dumps(body).encode(), strict_fields=True)


def completion(**members: Any) -> CompletionRequest:
    return parse_completion_request(
        json.dumps({"model": "m", "prompt": "x", **members}).encode(), strict_fields=True
    )


def filled(defaults: dict[str, Any], **said: Any) -> ChatRequest:
    return parse_chat_defaults(defaults).fill(chat(**said))


def completed(defaults: dict[str, Any], **said: Any) -> CompletionRequest:
    return parse_completion_defaults(defaults).fill(
        completion(**said), service_max_tokens=DEFAULT_COMPLETION_TOKENS
    )


# Each sampling field (behaviour 8.3): its name and a value in a body, what it is when read, another value.
SAMPLING: list[tuple[str, Any, str, Any, Any]] = [
    ("presence_penalty", 0.5, "presence_penalty", 0.5, -1),
    ("frequency_penalty", 0.5, "frequency_penalty", 0.5, -1),
    ("seed", 7, "seed", 7, 0),
    ("logit_bias", {"5": 1}, "logit_bias", ((5, 1.0),), {}),
    ("temperature", 0.3, "temperature", 0.3, 1),
    ("top_p", 0.3, "top_p", 0.3, 1),
    ("top_k", 3, "top_k", 3, 0),
    ("min_p", 0.3, "min_p", 0.3, 0),
    ("repeat_penalty", 1.3, "repeat_penalty", 1.3, 1),
    ("repetition_penalty", 1.3, "repeat_penalty", 1.3, 1),
    ("repeat_last_n", 9, "repeat_last_n", 9, -1),
    ("typical_p", 0.3, "typical_p", 0.3, 1),
    ("top_nsigma", 2, "top_n_sigma", 2.0, -1),
    ("dynatemp_range", 0.2, "dynatemp_range", 0.2, 0),
    ("dynatemp_exponent", 2, "dynatemp_exponent", 2.0, 1),
    ("mirostat_mode", 2, "mirostat_mode", 2, 0),
    ("mirostat_entropy", 4, "mirostat_entropy", 4.0, 5),
    ("mirostat_learning_rate", 0.2, "mirostat_learning_rate", 0.2, 0.1),
    ("dry", {"multiplier": 0.5}, "dry_multiplier", 0.5, {"multiplier": 0}),
    ("dry", {"sequence_breakers": ["x"]}, "dry_sequence_breakers", ("x",), {"sequence_breakers": []}),
    ("xtc", {"probability": 0.5}, "xtc_probability", 0.5, {"probability": 0}),
    ("samplers", ["top_k", "temperature"], "stages", (SamplerStage.TOP_K, SamplerStage.TEMPERATURE), []),
    ("sampler_sequence", "k", "stages", (SamplerStage.TOP_K,), ""),
]
# The same for what is not sampling.
OTHERS: list[tuple[str, Any, str, Any, Any]] = [
    ("stop", ["a"], "stop", ("a",), []),
    ("stop", "a", "stop", ("a",), "b"),
    ("ignore_eos", True, "ignore_eos", True, False),
    ("max_tokens", 9, "max_tokens", 9, 5),
]
CHAT: list[tuple[str, Any, str, Any, Any]] = [
    ("max_completion_tokens", 9, "max_tokens", 9, 5),
    ("skip_chat_parsing", True, "wants_raw_text", True, False),
]


@pytest.mark.parametrize(
    ("name", "default", "field", "value", "own"), SAMPLING, ids=lambda one: str(one)[:20]
)
class TestSampling:
    def test_it_is_filled_where_it_is_absent_or_null(self, name, default, field, value, own) -> None:
        for request in (
            filled({name: default}),
            filled({name: default}, **{name: None}),
            completed({name: default}),
            completed({name: default}, **{name: None}),
        ):
            assert getattr(request.sampling, field) == value

    def test_it_is_not_where_the_request_says_it_even_to_turn_it_off(
        self, name, default, field, value, own
    ) -> None:
        said = getattr(chat(**{name: own}).sampling, field)
        assert said is not None
        assert getattr(filled({name: default}, **{name: own}).sampling, field) == said
        assert getattr(completed({name: default}, **{name: own}).sampling, field) == said


@pytest.mark.parametrize(
    ("name", "default", "field", "value", "own"), [*OTHERS, *CHAT], ids=lambda one: str(one)[:20]
)
def test_what_is_not_sampling_likewise(name, default, field, value, own) -> None:
    assert getattr(filled({name: default}), field) == value
    assert getattr(filled({name: default}, **{name: None}), field) == value
    said = getattr(chat(**{name: own}), field)
    assert said is not None
    assert getattr(filled({name: default}, **{name: own}), field) == said


@pytest.mark.parametrize(("name", "default", "field", "value", "own"), OTHERS, ids=lambda one: str(one)[:20])
def test_and_in_completions(name, default, field, value, own) -> None:
    assert getattr(completed({name: default}), field) == value
    assert getattr(completed({name: default}, **{name: own}), field) == getattr(
        completion(**{name: own}), field
    )


class TestLimits:
    @pytest.mark.parametrize(
        ("defaults", "said", "limit"),
        [
            ({}, None, DEFAULT_CHAT_TOKENS),
            ({}, 10**6, 10**6),
            ({"max_tokens": 5}, None, 5),
            ({"max_tokens": 5}, 7, 7),
            ({"max_tokens_ceiling": 5}, None, 5),
            ({"max_tokens_ceiling": 5}, 7, 5),
            ({"max_tokens_ceiling": 5}, 3, 3),
            ({"max_tokens_ceiling": 10**6}, None, DEFAULT_CHAT_TOKENS),
            ({"max_tokens": 9, "max_tokens_ceiling": 5}, None, 5),
        ],
    )
    def test_a_default_and_a_ceiling(self, defaults, said, limit) -> None:
        assert filled(defaults, max_tokens=said).max_tokens == limit

    def test_completions_have_their_own(self) -> None:
        assert completed({}).max_tokens == DEFAULT_COMPLETION_TOKENS
        assert completed({"max_tokens_ceiling": 2}).max_tokens == 2


class TestForm:
    SCHEMA: ClassVar[dict[str, Any]] = {"type": "object"}

    def test_a_schema_and_a_grammar_of_which_the_grammar_is_preferred(self) -> None:
        request = filled({"json_schema": self.SCHEMA})
        assert request.constraint == JsonSchema(self.SCHEMA)
        assert request.constraint_param == "chat_defaults.json_schema"
        both = filled({"json_schema": self.SCHEMA, "grammar": "root ::= x"})
        assert both.constraint == Grammar("root ::= x", is_gbnf=True, is_trusted=True)
        assert both.constraint_param == "chat_defaults.grammar"

    @pytest.mark.parametrize(
        ("said", "constraint"),
        [
            ({"json_schema": {}}, JsonSchema({})),
            ({"grammar": "root ::= y"}, Grammar("root ::= y", is_gbnf=True)),
            ({"response_format": {"type": "json_object"}}, AnyJson()),
            ({"response_format": {"type": "text"}}, None),
        ],
    )
    def test_only_where_the_request_says_nothing_of_its_form(self, said, constraint) -> None:
        assert filled({"json_schema": self.SCHEMA}, **said).constraint == constraint
        assert filled({"grammar": "root ::= x"}, **said).constraint == constraint


class TestChats:
    def test_system_prompt_and_prefill(self) -> None:
        request = filled({"system_prompt": "Be kind.", "prefill_assistant": "Well"})
        assert [turn.role for turn in request.messages] == ["system", "user", "assistant"]
        assert request.template.is_continued
        assert not request.template.has_generation_prompt
        own = filled(
            {"system_prompt": "Be kind.", "prefill_assistant": "Well"},
            messages=[{"role": "system", "content": "Be short."}, HELLO],
            prefill_assistant="So",
        )
        assert [turn.content for turn in own.messages] == ["Be short.", "hi", "So"]

    def test_a_prefill_may_be_a_message(self) -> None:
        given = {"role": "assistant", "content": "b", "reasoning_content": "a"}
        assert filled({"prefill_assistant": given}).messages[-1] == ChatMessage(
            "assistant", "b", reasoning="a"
        )

    def test_template_variables_are_merged_and_the_requests_win(self) -> None:
        defaults = {"chat_template_kwargs": {"a": 1, "b": {"c": 2}}}
        assert dict(filled(defaults, chat_template_kwargs={"a": 3}).template.kwargs) == {
            "a": 3,
            "b": {"c": 2},
        }

    def test_locked_ones_may_not_be_set_otherwise(self) -> None:
        defaults = {
            "chat_template_kwargs": {"enable_thinking": False},
            "chat_template_locked": ["enable_thinking"],
        }
        assert filled(defaults, enable_thinking=False).template.kwargs["enable_thinking"] is False
        for said in ({"enable_thinking": True}, {"chat_template_kwargs": {"thinking": True}}):
            with pytest.raises(InvalidRequest):
                filled(defaults, **said)

    def test_a_template_is_for_whoever_makes_prompts(self) -> None:
        defaults = parse_chat_defaults({"chat_template": "{{ messages }}", "jinja": True})
        assert defaults.template_source == "{{ messages }}"
        assert defaults.fill(chat()).template.source is None

    @pytest.mark.parametrize(
        ("defaults", "expected"),
        [
            ({"reasoning_format": "hidden"}, ReasoningOptions(format=ReasoningFormat.HIDDEN)),
            ({"reasoning_effort": "high"}, ReasoningOptions(is_enabled=True, effort="high")),
            ({"reasoning": {"effort": "none"}}, ReasoningOptions(is_enabled=False, effort="none")),
            ({"enable_thinking": False}, ReasoningOptions(is_enabled=False)),
            ({"thinking_budget": 9}, ReasoningOptions(is_enabled=True, max_tokens=9)),
            ({"reasoning_budget": 0}, ReasoningOptions(is_enabled=False, max_tokens=0)),
        ],
        ids=str,
    )
    def test_thinking(self, defaults, expected) -> None:
        expected = replace(expected, format=expected.format or ReasoningFormat.AUTO)
        assert filled(defaults).reasoning == expected
        own = filled(defaults, reasoning_format="none", enable_thinking=True, reasoning_effort="low")
        assert (own.reasoning.format, own.reasoning.effort) == (ReasoningFormat.NONE, "low")
        assert own.reasoning.is_enabled


class TestRefusals:
    @pytest.mark.parametrize(
        ("values", "name"),
        [
            ({"temperature": 3}, "temperature"),
            ({"temperature": True}, "temperature"),
            ({"temperature": "1"}, "temperature"),
            ({"temperature": float("nan")}, "temperature"),
            ({"temperature": float("inf")}, "temperature"),
            ({"top_k": 1.5}, "top_k"),
            ({"top_k": 2**40}, "top_k"),
            ({"seed": 2**64}, "seed"),
            ({"logit_bias": {"x": 1}}, "logit_bias"),
            ({"logit_bias": []}, "logit_bias"),
            ({"typ_p": 0.2, "typical_p": 0.3}, "typ_p"),
            ({"dry": {"multiplayer": 1}}, "dry.multiplayer"),
            ({"xtc": {"probability": 2}}, "xtc.probability"),
            ({"samplers": ["x"]}, "samplers"),
            ({"samplers": ["top_k"], "top_p": 0.5}, "top_p"),
            ({"mirostat": 2, "temperature": 0}, "mirostat"),
            ({"stop": ""}, "stop"),
            ({"stop": [1]}, "stop"),
            ({"stop": ["a"] * 5}, "stop"),
            ({"ignore_eos": 1}, "ignore_eos"),
            ({"max_tokens": 0}, "max_tokens"),
            ({"max_tokens_ceiling": 0}, "max_tokens_ceiling"),
            ({"json_schema": []}, "json_schema"),
            ({"grammar": 5}, "grammar"),
            ({"n": 2}, "n"),
            ({"model": "m"}, "model"),
            ({"stream": True}, "stream"),
            ({"user": "u"}, "user"),
            ({"prompt": "x"}, "prompt"),
            ({"tools": []}, "tools"),
            ({"temprature": 1}, "temprature"),
            ({"x\n" + "y" * 200: 1}, "x?" + "y" * 62),
        ],
        ids=lambda one: str(one)[:40],
    )
    def test_of_both_kinds(self, values, name) -> None:
        for parse, param in (
            (parse_chat_defaults, "chat_defaults"),
            (parse_completion_defaults, "completion_defaults"),
        ):
            with pytest.raises(InvalidRequest) as refused:
                parse(values)
            assert refused.value.param == f"{param}.{name}"
            assert len(refused.value.message) < 300

    @pytest.mark.parametrize(
        ("values", "name"),
        [
            ({"system_prompt": 5}, "system_prompt"),
            ({"system_prompt": "x" * 300_000}, "system_prompt"),
            ({"prefill_assistant": {"role": "user", "content": "x"}}, "prefill_assistant.role"),
            ({"prefill_assistant": {"tool_calls": []}}, "prefill_assistant.tool_calls"),
            ({"prefill_assistant": []}, "prefill_assistant"),
            ({"chat_template": " "}, "chat_template"),
            ({"chat_template": 5}, "chat_template"),
            ({"jinja": False}, "jinja"),
            ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
            ({"chat_template_kwargs": {"enable_thinking": 5}}, "chat_template_kwargs.enable_thinking"),
            ({"chat_template_locked": "x"}, "chat_template_locked"),
            ({"chat_template_locked": [""]}, "chat_template_locked"),
            ({"chat_template_locked": ["tools"]}, "chat_template_locked"),
            ({"reasoning_format": "x"}, "reasoning_format"),
            ({"reasoning": {"efort": "low"}}, "reasoning.efort"),
            ({"messages": []}, "messages"),
            ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ],
        ids=lambda one: str(one)[:40],
    )
    def test_of_chats(self, values, name) -> None:
        with pytest.raises(InvalidRequest) as refused:
            parse_chat_defaults(values)
        assert refused.value.param == f"chat_defaults.{name}"

    @pytest.mark.parametrize(
        "name", ["system_prompt", "prefill_assistant", "chat_template", "reasoning_effort"]
    )
    def test_completions_have_nothing_of_chats(self, name) -> None:
        with pytest.raises(InvalidRequest) as refused:
            parse_completion_defaults({name: "high"})
        assert refused.value.param == f"completion_defaults.{name}"


class TestNeverWrong:
    """What is right without defaults is right with them."""

    def test_a_greedy_request_beside_mirostat_and_a_moving_temperature(self) -> None:
        sampling = filled({"mirostat_mode": 2, "dynatemp_range": 0.5}, temperature=0).sampling
        assert not sampling.mirostat_mode
        assert not sampling.dynatemp_range

    def test_an_order_of_stages_beside_mirostat(self) -> None:
        assert not filled({"mirostat_mode": 2}, samplers=["top_k"]).sampling.mirostat_mode
        assert filled({"samplers": ["top_k"]}, mirostat_mode=2).sampling.stages is None

    def test_mirostat_beside_a_greedy_default(self) -> None:
        assert filled({"temperature": 0}, mirostat_mode=1).sampling.temperature is None

    def test_a_bias_for_a_token_that_the_model_lacks(self) -> None:
        defaults = parse_request_defaults(
            {"logit_bias": {"5": 1, "9": 1}}, {"logit_bias": {"9": 1}}, service=ChatDefaults()
        ).within_vocabulary(9)
        assert defaults.chat.output.sampling.logit_bias == ((5, 1.0),)
        assert defaults.completion.sampling.logit_bias == ()
        assert RequestDefaults().within_vocabulary(1) == RequestDefaults()


class TestLayers:
    def test_the_rows_word_goes_before_the_services(self) -> None:
        service = ChatDefaults(
            system_prompt="service",
            prefill=ChatMessage("assistant", "service"),
            template_source="service",
            template_kwargs={"a": 1, "b": 1},
            locked_kwargs=frozenset({"a"}),
            reasoning=ReasoningOptions(format=ReasoningFormat.HIDDEN, effort="low"),
            wants_raw_text=True,
        )
        row = {
            "system_prompt": "row",
            "chat_template_kwargs": {"b": 2},
            "chat_template_locked": ["b"],
            "reasoning_effort": "high",
            "skip_chat_parsing": False,
        }
        merged = parse_request_defaults(row, {}, service=service).chat
        assert merged.system_prompt == "row"
        assert merged.prefill == service.prefill
        assert merged.template_source == "service"
        assert merged.template_kwargs == {"a": 1, "b": 2}
        assert merged.locked_kwargs == {"a", "b"}
        assert (merged.reasoning.format, merged.reasoning.effort) == (ReasoningFormat.HIDDEN, "high")
        assert merged.wants_raw_text is False

    def test_an_empty_word_is_one_too(self) -> None:
        service = ChatDefaults(system_prompt="service", prefill=ChatMessage("assistant", "service"))
        merged = parse_request_defaults(
            {"system_prompt": "", "prefill_assistant": ""}, {}, service=service
        ).chat
        assert [turn.role for turn in merged.fill(chat()).messages] == ["user"]

    def test_without_anything_the_services_hold(self) -> None:
        service = ChatDefaults(
            system_prompt="s", reasoning=ReasoningOptions(format=ReasoningFormat.AUTO, effort="low")
        )
        merged = parse_request_defaults({}, {}, service=service).chat
        assert merged.fill(chat()) == service.fill(chat())

    def test_below_them_is_what_the_file_recommends(self) -> None:
        sampling = filled({"temperature": 0.3}, top_p=0.2).sampling
        params = sampling.resolve({"temperature": 0.6, "top_p": 0.6, "top_k": 5})
        assert (params.temperature, params.top_p, params.top_k) == (0.3, 0.2, 5)
        assert params.min_p == SamplingParams().min_p


_NUMBERS = {
    name: (
        st.integers(int(low), min(int(high), 100))
        if name in INTEGERS
        else st.floats(low, high, allow_nan=False)
    )
    for name, (low, high) in RANGES.items()
}
_SAID = st.fixed_dictionaries({}, optional=_NUMBERS)


@given(said=_SAID, row=_SAID, service=_SAID, file=_SAID)
def test_the_precedence_holds_field_by_field(said, row, service, file) -> None:
    request, own, lower = SamplingRequest(**said), SamplingRequest(**row), SamplingRequest(**service)
    layered = OutputDefaults(sampling=own).over(OutputDefaults(sampling=lower)).sampling
    result = filled_sampling(request, layered)
    apart = {"mirostat_mode", "stages", "temperature", "dynatemp_range"}
    for one in fields(SamplingRequest):
        expected = next((s[one.name] for s in (said, row, service) if one.name in s), None)
        if one.name not in apart:
            assert getattr(result, one.name) == expected
        if one.name in said:
            assert getattr(result, one.name) == said[one.name]
    assert filled_sampling(result, layered) == result
    params = result.resolve(file)
    for name in said:
        assert getattr(params, name) == said[name]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.sampled_from(
    [
        *[one[0] for one in (*SAMPLING, *OTHERS, *CHAT)],
        "system_prompt",
        "reasoning",
        "chat_template_kwargs",
        "x",
    ]
)


@given(st.dictionaries(_NAMES, _JSON, max_size=4))
def test_whatever_is_written_is_read_or_refused_by_name(values) -> None:
    for parse, param in (
        (parse_chat_defaults, "chat_defaults"),
        (parse_completion_defaults, "completion_defaults"),
    ):
        try:
            parse(values)
        except InvalidRequest as refused:
            assert refused.param is not None
            assert refused.param.startswith(f"{param}.")


class TestMinTokens:
    """A model's limits never make wrong what a request asks for at least."""

    @pytest.mark.parametrize(
        ("defaults", "said", "limits"),
        [
            ({"max_tokens_ceiling": 20}, {"min_tokens": 50, "max_tokens": 100}, (20, 20)),
            ({"max_tokens_ceiling": 20}, {"min_tokens": 50}, (20, 20)),
            ({"max_tokens_ceiling": 20}, {"min_tokens": 5}, (5, 20)),
            ({"max_tokens": 16}, {"min_tokens": 50}, (50, 50)),
            ({"max_tokens": 16}, {"min_tokens": 5}, (5, 16)),
            ({"max_tokens": 16, "max_tokens_ceiling": 30}, {"min_tokens": 50}, (30, 30)),
            ({"max_tokens": 16}, {"min_tokens": 5, "max_tokens": 8}, (5, 8)),
        ],
    )
    def test_limits_of_the_model_give_way_or_cut_both(self, defaults, said, limits) -> None:
        request = filled(defaults, **said)
        assert (request.min_tokens, request.max_tokens) == limits
        if "max_tokens" in defaults:
            request = completed(defaults, **said)
            assert (request.min_tokens, request.max_tokens) == limits

    def test_what_is_wrong_by_itself_stays_so(self) -> None:
        """The service refuses more tokens at least than at most."""
        request = filled({"max_tokens_ceiling": 20}, min_tokens=50, max_tokens=10)
        assert (request.min_tokens, request.max_tokens) == (20, 10)
        request = completed({}, min_tokens=DEFAULT_COMPLETION_TOKENS + 1)
        assert request.min_tokens > request.max_tokens
