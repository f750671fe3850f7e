"""Bodies of /v1/messages, good and bad, as conversations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.anthropic.errors import error_object
from inference.anthropic.validation import parse_count_request, parse_messages_request
from inference.domain.constraint import JsonSchema
from inference.domain.errors import InvalidRequest
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.domain.tools import ToolCall, ToolMode, ToolSpec, ToolUse
from inference.openai.protocol import ChatRequest

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
HI = [{"role": "user", "content": "hi"}]
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "é"}}


def read(*, strict: bool = False, **fields: Any) -> ChatRequest:
    body = {"model": "m", "max_tokens": 10, "messages": HI, **fields}
    given = {name: value for name, value in body.items() if value is not ...}
    return parse_messages_request(json.dumps(given).encode(), strict_fields=strict)


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read(**fields)
    return caught.value


def test_a_plain_request() -> None:
    asked = read(
        system="Be brief.",
        temperature=0.5,
        top_k=3,
        top_p=0.9,
        stop_sequences=["a", "b", "a"],
        stream=True,
        metadata={"user_id": "u1"},
        service_tier="auto",
    )
    assert asked.messages == (ChatMessage("system", "Be brief."), ChatMessage("user", "hi"))
    assert (asked.sampling.temperature, asked.sampling.top_k, asked.sampling.top_p) == (0.5, 3, 0.9)
    assert (asked.max_tokens, asked.stop, asked.is_stream, asked.user) == (10, ("a", "b"), True, "u1")
    assert asked.tool_use == ToolUse() and asked.reasoning == ReasoningOptions()
    assert not asked.template.is_continued


def test_blocks_of_text_are_joined_and_caching_marks_change_nothing() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    asked = read(
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=2;"},
            {"type": "text", "text": "One.", **mark},
            {"type": "text", "text": "Two."},
        ],
        messages=[
            {
                "role": "user",
                "content": [{"type": "text", "text": "a", **mark}, {"type": "text", "text": "b"}],
            }
        ],
        cache_control={"type": "ephemeral"},
    )
    assert [message.content for message in asked.messages] == ["One.\nTwo.", "a\nb"]
    assert asked.ignored_parameters == ()


def test_calls_and_their_results_become_turns() -> None:
    asked = read(
        tools=[TOOL],
        messages=[
            *HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Where?", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "Looking."},
                    USE,
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "7"}]},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
    )
    assert asked.messages == (
        ChatMessage("user", "hi"),
        ChatMessage(
            "assistant",
            "Looking.",
            tool_calls=(ToolCall("t1", "look", '{"at": "é"}'),),
            reasoning="Where?",
        ),
        ChatMessage("tool", "7", name="look", tool_call_id="t1"),
        ChatMessage("user", "Well?"),
    )


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({}, ""),
        ({"content": "x"}, "x"),
        ({"content": [], "is_error": True}, "Error"),
        ({"content": "no", "is_error": True}, "Error: no"),
    ],
)
def test_results_of_many_kinds(result: dict[str, Any], text: str) -> None:
    asked = read(
        messages=[
            *HI,
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", **result}]},
        ]
    )
    assert asked.messages[1].content is None
    assert asked.messages[-1] == ChatMessage("tool", text, name="look", tool_call_id="t1")


def test_pictures_stand_in_the_text_by_their_marks() -> None:
    far = {"type": "image", "source": {"type": "url", "url": "https://h/p.png"}}
    asked = read(
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]},
            {"role": "user", "content": [far, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [USE]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [IMAGE]},
                    {"type": "text", "text": "c"},
                ],
            },
        ]
    )
    first, _, result, last = asked.messages
    near, distant = first.media
    assert (near.data, distant.url) == (b"hi", "https://h/p.png")
    assert first.content == f"a\n{near.mark}\n{distant.mark}\nb"
    assert near.param == "messages[0].content[1]"
    assert result.content == result.media[0].mark and result.role == "tool"
    assert (last.content, last.media) == ("c", ())


def test_turns_of_one_role_are_one() -> None:
    asked = read(
        messages=[
            {"role": "user", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": "c"},
            {"role": "assistant", "content": [{"type": "text", "text": "d"}]},
            {"role": "user", "content": "e"},
        ]
    )
    assert [(one.role, one.content) for one in asked.messages] == [
        ("user", "a\nb"),
        ("assistant", "c\nd"),
        ("user", "e"),
    ]


def test_an_assistants_last_turn_is_continued() -> None:
    begun = read(messages=[*HI, {"role": "assistant", "content": "The answer is"}])
    assert begun.template.is_continued
    from_nothing = read(messages=[*HI, {"role": "assistant", "content": ""}])
    assert not from_nothing.template.is_continued
    assert [message.role for message in from_nothing.messages] == ["user"]


@pytest.mark.parametrize(
    ("choice", "use"),
    [
        (None, ToolUse(mode=ToolMode.AUTO)),
        ({"type": "auto"}, ToolUse(mode=ToolMode.AUTO)),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolUse(is_parallel=False)),
        ({"type": "any"}, ToolUse(mode=ToolMode.REQUIRED)),
        ({"type": "tool", "name": "look"}, ToolUse(mode=ToolMode.NAMED, name="look")),
        ({"type": "none"}, ToolUse(mode=ToolMode.NONE)),
    ],
)
def test_choices_of_tools(choice: object, use: ToolUse) -> None:
    asked = read(tools=[{**TOOL, "strict": True}], tool_choice=choice)
    tool = ToolSpec("look", "Looks.", {"type": "object", "properties": {}}, is_strict=True)
    assert asked.tool_use == ToolUse((tool,), use.mode, use.name, use.is_parallel)


@pytest.mark.parametrize(
    ("thinking", "options"),
    [
        ({"type": "enabled", "budget_tokens": 5}, ReasoningOptions(is_enabled=True, max_tokens=5)),
        ({"type": "disabled"}, ReasoningOptions(is_enabled=False)),
        ({"type": "adaptive"}, ReasoningOptions(is_enabled=True)),
        (
            {"type": "adaptive", "display": "omitted"},
            ReasoningOptions(is_enabled=True, format=ReasoningFormat.HIDDEN),
        ),
    ],
)
def test_thinking(thinking: object, options: ReasoningOptions) -> None:
    assert read(thinking=thinking).reasoning == options
    assert read(output_config={"effort": "low"}).reasoning == ReasoningOptions(effort="low")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ...}, "model"),
        ({"max_tokens": ...}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"temperature": 1.01}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": 1.5}, "top_k"),
        ({"stop_sequences": "a"}, "stop_sequences"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"stop_sequences": [1]}, "stop_sequences"),
        ({"stop_sequences": ["a"] * 17}, "stop_sequences"),
        ({"stream": 1}, "stream"),
        ({"system": 5}, "system"),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"metadata": {"user_id": "a\0b"}}, "metadata.user_id"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "thinking.budget_tokens"),
        ({"thinking": {}}, "thinking.type"),
        ({"messages": ...}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [*HI, {"role": "assistant", "content": [IMAGE]}]},
            "messages[1].content[0]",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "frob"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [USE]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]},
            "messages[0].content[0].tool_use_id",
        ),
        ({"messages": [*HI, {"role": "assistant", "content": [USE]}]}, "messages"),
        (
            {"messages": [*HI, {"role": "assistant", "content": [{**USE, "input": "x"}]}]},
            "messages[1].content[0].input",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}] * 16_385}]}, "messages"),
        ({"tools": {}}, "tools"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{**TOOL, "type": "web_search_20250305"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "input_schema": {"type": "array"}}]}, "tools[0].input_schema"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
        ({"tools": [TOOL] * 257}, "tools"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "no"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"container": "c"}, "container"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    assert refusal(**fields).param == param


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_a_schema_for_the_answer(field: str) -> None:
    format = {"type": "json_schema", "schema": SCHEMA}
    asked = read(**{field: {"format": format} if field == "output_config" else format})
    assert asked.constraint == JsonSchema(SCHEMA)
    assert asked.constraint_param.startswith(field)
    wrong = {**format, "schema": None}
    error = refusal(**{field: {"format": wrong} if field == "output_config" else wrong})
    assert error.param == asked.constraint_param


def test_a_thread_is_refused_with_the_code_that_clients_act_upon() -> None:
    error = refusal(thread={"type": "create"})
    assert (error.param, error.code) == ("thread", "thread_unsupported_request")
    told = error_object(error, request_id="r")["error"]
    assert isinstance(told, dict) and told["details"] == {"error_code": "thread_unsupported_request"}


def test_fields_that_nobody_defines() -> None:
    assert read(context_management={"edits": []}).ignored_parameters == ("context_management",)
    with pytest.raises(InvalidRequest) as caught:
        read(strict=True, frobnicate=1)
    assert caught.value.code == "unknown_parameter"


def test_counting_needs_no_max_tokens() -> None:
    body = {
        "model": "m",
        "messages": HI,
        "tools": [TOOL],
        "thinking": {"type": "enabled", "budget_tokens": 9},
    }
    asked = parse_count_request(json.dumps(body).encode(), strict_fields=True)
    assert asked.model == "m"
    assert asked.conversation.messages == (ChatMessage("user", "hi"),)
    assert [tool.name for tool in asked.conversation.tool_use.tools] == ["look"]


def test_pictures_keep_their_places_in_turns_and_results() -> None:
    inline = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    text = {"type": "text", "text": "see"}
    asked = read(
        tools=[TOOL],
        messages=[
            {"role": "user", "content": [text, inline]},
            {"role": "user", "content": [linked]},  # turns of one role are one
            {"role": "assistant", "content": [USE]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [text, inline]}, inline],
            },
        ],
    )
    user, _, result, last = asked.messages
    first, second = user.media
    assert user.content == f"see\n{first.mark}\n{second.mark}"
    assert (first.data, first.url) == (b"\0\0\0", None)
    assert (second.data, second.url) == (None, "https://example.com/a.png")
    assert [part.param for part in user.media] == ["messages[0].content[1]", "messages[1].content[0]"]
    assert result.content == f"see\n{result.media[0].mark}"
    assert last.content == last.media[0].mark


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image"},
        {"type": "image", "source": {}},
        {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}},
        {"type": "document", "source": {"type": "text", "data": "AAAA"}},
    ],
)
def test_what_cannot_be_seen_is_refused_by_its_place(block: dict[str, Any]) -> None:
    error = refusal(messages=[{"role": "user", "content": [block]}])
    assert (error.param or "").startswith("messages[0].content[0]")


def test_assistants_show_nothing() -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    turns = [*HI, {"role": "assistant", "content": [block]}]
    assert refusal(messages=turns).param == "messages[1].content[0]"
