from __future__ import annotations

from dataclasses import replace

import pytest

from inference.domain.conversation import Conversation
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolCall, ToolMode, ToolSpec, ToolUse
from inference.prompting.tool_emulation import emulate_tools, has_tool_turns, instruction
from tests.chat_templates import CALL, CLOCK, HELLO, OTHER_CALL, OTHER_RESULT, RESULT, SYSTEM, WEATHER, calls

USE = ToolUse((WEATHER, CLOCK))


def emulated(*messages: ChatMessage, use: ToolUse = USE) -> tuple[ChatMessage, ...]:
    rewritten = emulate_tools(Conversation(messages=messages, tool_use=use))
    assert rewritten.tool_use == ToolUse()
    return rewritten.messages


def test_the_tools_and_the_convention_are_told() -> None:
    text = instruction(USE)
    assert 'TOOL_CALL {"name": "tool_name", "arguments": {"argument": "value"}}' in text.splitlines()
    assert text.endswith(
        "# Tools\n\n- get_weather: Weather of a city\n  arguments: {city: string, days?: integer}\n- now"
    )


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({}, "  arguments: {}"),
        ({"type": "object", "properties": {}}, "  arguments: {}"),
        ({"properties": {"a": {}}}, "  arguments: {a?: string}"),
        ({"properties": {"a": {"type": ["integer", "null"]}}}, "  arguments: {a?: integer|null}"),
        (
            {"properties": {"a": True, "b": {"$ref": "#"}}, "required": ["b"]},
            "  arguments: {a?: string, b: string}",
        ),
        ({"properties": {"a": {"type": 5}}, "required": "a"}, "  arguments: {a?: string}"),
        ({"properties": {"a": {"type": []}}, "required": [5, None, {}]}, "  arguments: {a?: string}"),
        ({"properties": [1, 2]}, "  arguments: {}"),
        ({"properties": {"ä b": {"type": "array"}}}, "  arguments: {ä b?: array}"),
    ],
)
def test_signatures_of_all_schemas(parameters: dict[str, object], line: str) -> None:
    assert instruction(ToolUse((ToolSpec("f", "", parameters),))).splitlines()[-2:] == ["- f", line]


def test_only_what_may_be_called_is_listed() -> None:
    assert "- now" not in instruction(replace(USE, mode=ToolMode.NAMED, name="get_weather"))
    assert "get_weather" not in instruction(replace(USE, allowed_names=frozenset({"now"})))


def test_what_is_asked_for_follows_the_choice() -> None:
    assert "only where you need it" in instruction(USE)
    for mode in (ToolMode.REQUIRED, ToolMode.NAMED):
        assert "Answer now with a tool call" in instruction(replace(USE, mode=mode, name="now"))
    assert "one call at a time" in instruction(replace(USE, is_parallel=False))
    assert "one call at a time" not in instruction(USE)


def test_the_instruction_stands_in_front_of_the_task() -> None:
    first, second = emulated(SYSTEM, HELLO)
    assert first.content == f"{instruction(USE)}\n\n# Task context\n\nBe brief."
    assert second == HELLO


@pytest.mark.parametrize("text", ["", "  \n", None])
def test_a_blank_system_turn_becomes_the_instruction(text: str | None) -> None:
    assert emulated(ChatMessage("system", text), HELLO)[0].content == instruction(USE)


def test_without_a_system_turn_there_will_be_one() -> None:
    assert emulated(HELLO) == (ChatMessage("system", instruction(USE)), HELLO)
    later = emulated(HELLO, SYSTEM)
    assert [turn.role for turn in later] == ["user", "system"]
    assert later[1].content is not None
    assert later[1].content.endswith("Be brief.")


def test_calls_and_results_become_text() -> None:
    turns = emulated(HELLO, calls(CALL, OTHER_CALL, content="Let me see."), RESULT, OTHER_RESULT, HELLO)
    assert [(turn.role, turn.content) for turn in turns[2:]] == [
        (
            "assistant",
            'Let me see.\nTOOL_CALL {"name": "get_weather", "arguments": {"city": "Paris"}}\n'
            'TOOL_CALL {"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}',
        ),
        ("user", "Tool result: Sunny\nTool result: Rainy\n\nHello"),
    ]
    assert not has_tool_turns(turns)


def test_results_of_different_calls_in_a_row_stay_apart() -> None:
    turns = emulated(HELLO, calls(CALL), RESULT, calls(OTHER_CALL), OTHER_RESULT)
    assert [turn.role for turn in turns[2:]] == ["assistant", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("arguments", "written"),
    [("", "{}"), ("not json", '{"_raw": "not json"}'), ('{"a":"é"}', '{"a": "é"}'), ("[1]", "[1]")],
)
def test_odd_arguments_in_the_history(arguments: str, written: str) -> None:
    turn = emulated(HELLO, calls(ToolCall("c", "f", arguments)))[-1]
    assert turn.content == f'TOOL_CALL {{"name": "f", "arguments": {written}}}'


def test_without_a_callable_tool_the_history_alone_is_rewritten() -> None:
    for use in (ToolUse(), replace(USE, mode=ToolMode.NONE)):
        turns = emulated(SYSTEM, HELLO, calls(CALL), RESULT, use=use)
        assert turns[0] == SYSTEM
        assert not has_tool_turns(turns)


def test_a_result_of_nothing_is_no_word() -> None:
    assert emulated(HELLO, calls(CALL), replace(RESULT, content=None))[-1].content == "Tool result: "
