"""Bodies of /v1/responses, good and bad, as chats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.domain.constraint import AnyJson, JsonSchema
from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.media import MediaKind
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolCall, ToolMode
from inference.openai.responses.protocol import ResponseRequest
from inference.openai.responses.validation import parse_response_request

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "7"}


def read(*, strict: bool = False, earlier: Any = None, **fields: Any) -> ResponseRequest:
    body = {"model": "m", "input": "hi", **fields}
    given = {name: value for name, value in body.items() if value is not ...}
    return parse_response_request(json.dumps(given).encode(), strict_fields=strict, earlier=earlier)


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read(**fields)
    return caught.value


def test_a_plain_request() -> None:
    asked = read(
        instructions="Be brief.",
        max_output_tokens=16,
        temperature=0.5,
        stream=True,
        metadata={"a": "b"},
        user="u",
        store=False,
        truncation="disabled",
        background=False,
        include=["reasoning.encrypted_content"],
        text={"format": {"type": "text"}, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto"},
    )
    assert asked.messages == (ChatMessage("system", "Be brief."), ChatMessage("user", "hi"))
    assert (asked.max_tokens, asked.sampling.temperature, asked.is_stream) == (16, 0.5, True)
    assert (asked.is_stored, asked.user, asked.metadata) == (False, "u", {"a": "b"})
    assert asked.reasoning.effort == "low" and asked.reasoning.is_enabled
    assert asked.ignored_parameters == () and not asked.template.is_continued
    assert asked.echo["text"] == {"format": {"type": "text"}, "verbosity": "low"}


def test_items_of_all_kinds_become_turns() -> None:
    asked = read(
        input=[
            {"role": "developer", "content": "Rules."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "Hm."}],
            },
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
            },
            {**CALL, "id": "fc_1", "status": "completed"},
            {**CALL, "call_id": "c2"},
            OUTPUT,
            {**OUTPUT, "call_id": "c2", "output": [{"type": "input_text", "text": "8"}]},
            {"role": "user", "content": "Well?"},
        ],
        tools=[TOOL],
    )
    assert asked.messages == (
        ChatMessage("developer", "Rules."),
        ChatMessage("user", "a"),
        ChatMessage(
            "assistant",
            "Looking.",
            tool_calls=(ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")),
            reasoning="Hm.",
        ),
        ChatMessage("tool", "7", name="look", tool_call_id="c1"),
        ChatMessage("tool", "8", name="look", tool_call_id="c2"),
        ChatMessage("user", "Well?"),
    )


def test_thinking_is_read_from_its_summary_where_there_is_nothing_else() -> None:
    item = {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "x",
    }
    (_, turn, *_) = read(input=[{"role": "user", "content": "a"}, item, CALL, OUTPUT]).messages
    assert turn.reasoning == "Hm." and turn.content is None
    asked = read(input=[{"role": "user", "content": "a"}, {**item, "summary": []}])
    assert len(asked.messages) == 1


def test_pictures_and_sounds_stand_in_the_text_by_their_marks() -> None:
    asked = read(
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"},
                    {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
                ],
            },
            CALL,
            {**OUTPUT, "output": [{"type": "input_image", "image_url": "https://h/p.png"}]},
        ]
    )
    first, _, result = asked.messages
    picture, sound = first.media
    assert first.content == f"a\n{picture.mark}\n{sound.mark}"
    assert (picture.data, sound.data, picture.param) == (b"hi", b"hi", "input[0].content[1]")
    assert result.content == result.media[0].mark


def test_what_went_before_comes_first_and_instructions_are_not_taken_over() -> None:
    earlier = [{"role": "user", "content": "a"}, CALL]
    asked = read(
        input=[OUTPUT], earlier=earlier, previous_response_id="resp_1", instructions="New.", store=True
    )
    assert [turn.role for turn in asked.messages] == ["system", "user", "assistant", "tool"]
    assert asked.previous_response_id == "resp_1"
    unknown_yet = read(input=[OUTPUT], previous_response_id="resp_1")
    assert unknown_yet.messages[0].tool_call_id == "c1"


def test_tools_are_flat_and_told_in_full() -> None:
    asked = read(tools=[TOOL], tool_choice={"type": "function", "name": "look"}, parallel_tool_calls=False)
    assert asked.tool_use.mode is ToolMode.NAMED and not asked.tool_use.is_parallel
    assert asked.echo["tools"] == [{**TOOL, "description": None}]
    assert asked.echo["tool_choice"] == {"type": "function", "name": "look"}
    assert asked.echo["parallel_tool_calls"] is False
    assert read(tools=[TOOL]).echo["tool_choice"] == "auto"


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_the_form_of_the_answer() -> None:
    format = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}
    asked = read(text={"format": format})
    assert (asked.constraint, asked.constraint_param) == (JsonSchema(SCHEMA), "text.format.schema")
    assert asked.echo["text"]["format"] == format
    assert read(text={"format": {"type": "json_object"}}).constraint == AnyJson()
    both = refusal(text={"format": format}, structured_outputs={"regex": "a"})
    assert both.param == "structured_outputs.regex"


def test_logprobs_are_included_by_name() -> None:
    assert read(include=["message.output_text.logprobs"], top_logprobs=3).num_top_logprobs == 3
    assert read(include=["message.output_text.logprobs"]).num_top_logprobs == 0
    assert read().num_top_logprobs is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ...}, "model"),
        ({"input": ...}, "input"),
        ({"input": []}, "input"),
        ({"input": {}}, "input"),
        ({"input": " "}, "input"),
        ({"input": ["a"]}, "input[0]"),
        ({"input": [{"role": "tool", "content": "a"}]}, "input[0].role"),
        ({"input": [{"content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "frob"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [OUTPUT]}, "input[0].call_id"),
        ({"input": [{**CALL, "call_id": ""}]}, "input[0].call_id"),
        ({"input": [{**CALL, "arguments": {}}]}, "input[0].arguments"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": ""}] * 16_385}, "input"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"previous_response_id": 5}, "previous_response_id"),
        ({"store": "yes"}, "store"),
        ({"include": "x"}, "include"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"include": [[]]}, "include"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"truncation": "auto"}, "truncation"),
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"context_management": [{}]}, "context_management"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [TOOL], "tool_choice": {"type": "file_search"}}, "tool_choice.type"),
        ({"text": {"verbosity": "loud"}}, "text.verbosity"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"messages": []}, "messages"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    assert refusal(**fields).param == param


def test_what_openai_runs_itself_is_unsupported_by_name() -> None:
    for fields in ({"tools": [{"type": "web_search"}]}, {"background": True}, {"conversation": "c"}):
        assert isinstance(refusal(**fields), UnsupportedParameter)
    assert "web_search" in refusal(tools=[{"type": "web_search"}]).message


def test_fields_that_nobody_defines() -> None:
    assert read(frobnicate=1).ignored_parameters == ("frobnicate",)
    assert refusal(strict=True, frobnicate=1).code == "unknown_parameter"


def test_pictures_and_sounds_keep_their_places_in_turns_and_outputs() -> None:
    data = "data:image/png;base64,AAAA"
    picture = {"type": "input_image", "image_url": data, "detail": "auto"}
    sound = {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "wav"}}
    text = {"type": "input_text", "text": "see"}
    asked = read(
        input=[
            {"role": "user", "content": [text, picture, sound]},
            CALL,
            {**OUTPUT, "output": [text, picture]},
            {"role": "user", "content": "so?"},
        ]
    )
    user, _, output, last = asked.messages
    first, second = user.media
    assert (first.kind, second.kind) == (MediaKind.IMAGE, MediaKind.AUDIO)
    assert user.content == f"see\n{first.mark}\n{second.mark}"
    assert [part.param for part in user.media] == ["input[0].content[1]", "input[0].content[2]"]
    assert output.content == f"see\n{output.media[0].mark}"
    assert output.media[0].param == "input[2].output[1]"
    assert not last.media


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("user", {"type": "input_image"}),
        ("user", {"type": "input_image", "file_id": "file-1"}),
        ("user", {"type": "input_image", "image_url": "ftp://example.com/a.png"}),
        ("user", {"type": "input_file", "file_data": "AAAA"}),
        ("system", {"type": "input_image", "image_url": "data:;base64,AAAA"}),
        ("assistant", {"type": "input_image", "image_url": "data:;base64,AAAA"}),
    ],
)
def test_what_cannot_be_seen_is_refused_by_its_place(role: str, part: dict[str, Any]) -> None:
    assert (refusal(input=[{"role": role, "content": [part]}]).param or "").startswith("input[0].content[0]")
