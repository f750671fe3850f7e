from __future__ import annotations

from typing import Any

import pytest

from inference.domain.conversation import TemplateOptions
from inference.domain.errors import InvalidRequest
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.openai.chat_defaults import ChatDefaults
from inference.openai.protocol import ChatRequest, SamplingRequest
from tests.chat_templates import HELLO, SYSTEM

CONTINUED = TemplateOptions(is_continued=True, has_generation_prompt=False)


def request(*messages: ChatMessage, **more: Any) -> ChatRequest:
    return ChatRequest(model="m", sampling=SamplingRequest(), messages=messages or (HELLO,), **more)


def kwargs(defaults: ChatDefaults, said: ReasoningOptions | None = None, **given: object) -> dict[str, Any]:
    reasoning = said or ReasoningOptions()
    return dict(
        defaults.fill(request(reasoning=reasoning, template=TemplateOptions(kwargs=given))).template.kwargs
    )


def test_without_defaults_nothing_changes_but_the_format() -> None:
    plain = request()
    assert ChatDefaults().fill(plain).conversation.messages == plain.messages
    assert ChatDefaults().fill(plain).template == TemplateOptions()
    assert ChatDefaults().fill(plain).reasoning == ReasoningOptions(format=ReasoningFormat.AUTO)


def test_a_system_prompt_begins_conversations_that_have_none() -> None:
    defaults = ChatDefaults(system_prompt="Be kind.")
    assert defaults.fill(request()).messages == (ChatMessage("system", "Be kind."), HELLO)
    for own in (SYSTEM, ChatMessage("developer", "")):
        assert defaults.fill(request(HELLO, own)).messages == (HELLO, own)


def test_a_prefill_begins_answers_that_nobody_has_begun() -> None:
    defaults = ChatDefaults(prefill=ChatMessage("assistant", "Well, "))
    filled = defaults.fill(request())
    assert filled.messages == (HELLO, ChatMessage("assistant", "Well, "))
    assert filled.template == CONTINUED
    own = request(HELLO, ChatMessage("assistant", "So"), template=CONTINUED)
    assert defaults.fill(own).messages == own.messages
    also = request(HELLO, ChatMessage("assistant", "So"), template=TemplateOptions(is_continued=True))
    assert defaults.fill(also).messages == also.messages
    raw = request(template=TemplateOptions(has_generation_prompt=False))
    assert defaults.fill(raw).messages == raw.messages


def test_a_requests_variables_win_over_all_others() -> None:
    defaults = ChatDefaults(
        template_kwargs={"a": 1, "b": 1, "reasoning_effort": "low"}, reasoning=ReasoningOptions(effort="high")
    )
    assert kwargs(defaults, b=2, c=2) == {
        "a": 1,
        "b": 2,
        "c": 2,
        "enable_thinking": True,
        "thinking": True,
        "reasoning_effort": "high",
    }
    assert kwargs(defaults, ReasoningOptions(effort="max"))["reasoning_effort"] == "max"
    assert kwargs(defaults, ReasoningOptions(effort="max"), reasoning_effort="x")["reasoning_effort"] == "x"


@pytest.mark.parametrize(
    ("own", "said", "expected"),
    [
        (ReasoningOptions(), ReasoningOptions(), None),
        (ReasoningOptions(is_enabled=True), ReasoningOptions(), True),
        (ReasoningOptions(is_enabled=False), ReasoningOptions(), False),
        (ReasoningOptions(is_enabled=True), ReasoningOptions(is_enabled=False), False),
        (ReasoningOptions(is_enabled=False), ReasoningOptions(is_enabled=True), True),
        (ReasoningOptions(max_tokens=0), ReasoningOptions(), False),
        (ReasoningOptions(max_tokens=9), ReasoningOptions(), True),
        (ReasoningOptions(effort="none"), ReasoningOptions(), False),
        (ReasoningOptions(effort="low"), ReasoningOptions(), True),
        (ReasoningOptions(effort="low", max_tokens=0), ReasoningOptions(), False),
        (ReasoningOptions(is_enabled=True, max_tokens=0), ReasoningOptions(), True),
        (ReasoningOptions(max_tokens=0), ReasoningOptions(is_enabled=True), True),
    ],
)
def test_whether_to_think(own: ReasoningOptions, said: ReasoningOptions, expected: bool | None) -> None:
    assert ChatDefaults(reasoning=own).fill(request(reasoning=said)).reasoning.is_enabled is expected


def test_effort_and_budget_fill_what_is_left_out() -> None:
    defaults = ChatDefaults(reasoning=ReasoningOptions(effort="low", max_tokens=9))
    filled = defaults.fill(request()).reasoning
    assert (filled.effort, filled.max_tokens) == ("low", 9)
    said = ReasoningOptions(effort="high", is_enabled=True)
    filled = defaults.fill(request(reasoning=said)).reasoning
    assert (filled.effort, filled.max_tokens) == ("high", 9)
    off = ReasoningOptions(is_enabled=False)
    assert defaults.fill(request(reasoning=off)).reasoning == ReasoningOptions(
        format=ReasoningFormat.AUTO, is_enabled=False
    )


def test_who_turns_thinking_on_does_not_get_the_values_that_turn_it_off() -> None:
    defaults = ChatDefaults(reasoning=ReasoningOptions(effort="none", max_tokens=0))
    filled = defaults.fill(request(reasoning=ReasoningOptions(is_enabled=True))).reasoning
    assert (filled.effort, filled.max_tokens, filled.is_enabled) == (None, None, True)


def test_formats() -> None:
    defaults = ChatDefaults(reasoning=ReasoningOptions(format=ReasoningFormat.HIDDEN))
    assert defaults.fill(request()).reasoning.format is ReasoningFormat.HIDDEN
    said = ReasoningOptions(format=ReasoningFormat.NONE)
    assert defaults.fill(request(reasoning=said)).reasoning.format is ReasoningFormat.NONE


def test_raw_text() -> None:
    assert ChatDefaults(wants_raw_text=True).fill(request()).wants_raw_text
    assert ChatDefaults().fill(request(wants_raw_text=True)).wants_raw_text


LOCKED = ChatDefaults(
    template_kwargs={"enable_thinking": False, "style": "dry"},
    locked_kwargs=frozenset({"enable_thinking", "style", "other", "reasoning_effort"}),
)


@pytest.mark.parametrize(
    ("said", "given", "param"),
    [
        (ReasoningOptions(), {"style": "witty"}, "chat_template_kwargs.style"),
        (ReasoningOptions(), {"style": None}, "chat_template_kwargs.style"),
        (ReasoningOptions(), {"other": 1}, "chat_template_kwargs.other"),
        (ReasoningOptions(), {"enable_thinking": True}, "chat_template_kwargs.enable_thinking"),
        (ReasoningOptions(), {"thinking": True}, "chat_template_kwargs.thinking"),
        (ReasoningOptions(is_enabled=True), {}, "enable_thinking"),
        (ReasoningOptions(effort="low"), {}, "reasoning_effort"),
    ],
)
def test_what_is_locked_cannot_be_said(said: ReasoningOptions, given: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        kwargs(LOCKED, said, **given)
    assert caught.value.param == param


def test_saying_what_the_administrator_said_is_no_harm() -> None:
    same = ReasoningOptions(is_enabled=False)
    assert kwargs(LOCKED, same, style="dry", free=1) == {
        "enable_thinking": False,
        "thinking": False,
        "style": "dry",
        "free": 1,
    }


def test_what_is_locked_holds_against_the_default_reasoning_too() -> None:
    defaults = ChatDefaults(
        template_kwargs={"enable_thinking": False},
        locked_kwargs=frozenset({"enable_thinking"}),
        reasoning=ReasoningOptions(is_enabled=True),
    )
    assert kwargs(defaults)["enable_thinking"] is False
