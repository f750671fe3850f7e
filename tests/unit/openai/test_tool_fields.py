from __future__ import annotations

import pytest

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.tools import ToolMode, ToolSpec, ToolUse
from inference.openai.tool_fields import MAX_TOOLS, MAX_TOOLS_CHARS
from inference.openai.validation import parse_chat_request
from tests.unit.openai.bodies import chat, chat_refusal

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def function(name: object = "f", **more: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, **more}}


TOOL = function()


def test_functions_are_read_whole() -> None:
    use = chat(
        tools=[
            function("a", description="Does a", parameters=SCHEMA, strict=True),
            function("b", strict=None),
        ]
    ).tool_use
    assert use == ToolUse((ToolSpec("a", "Does a", SCHEMA, True), ToolSpec("b")))
    assert use.mode is ToolMode.AUTO
    assert use.is_parallel


def test_the_flat_shape_of_the_responses_api_is_read_too() -> None:
    flat = {"type": "function", "name": "a", "description": "A", "parameters": SCHEMA, "strict": True}
    assert chat(tools=[flat]).tool_use.tools == (ToolSpec("a", "A", SCHEMA, True),)


def test_no_tools_is_no_tool_use() -> None:
    for fields in ({}, {"tools": None}, {"tools": []}, {"tools": [], "tool_choice": "auto"}):
        assert chat(**fields).tool_use == ToolUse()


@pytest.mark.parametrize(
    ("choice", "mode", "callable_names"),
    [
        (None, ToolMode.AUTO, ["a", "b", "c"]),
        ("auto", ToolMode.AUTO, ["a", "b", "c"]),
        ("none", ToolMode.NONE, []),
        ("required", ToolMode.REQUIRED, ["a", "b", "c"]),
        ({"type": "function", "function": {"name": "b"}}, ToolMode.NAMED, ["b"]),
        ({"type": "function", "name": "b"}, ToolMode.NAMED, ["b"]),
        ("b", ToolMode.NAMED, ["b"]),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [function("c"), function("a")]},
            },
            ToolMode.AUTO,
            ["a", "c"],
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "c"}]},
            ToolMode.REQUIRED,
            ["c"],
        ),
    ],
)
def test_choices(choice: object, mode: ToolMode, callable_names: list[str]) -> None:
    use = chat(tools=[function(name) for name in "abc"], tool_choice=choice).tool_use
    assert use.mode is mode
    assert [tool.name for tool in use.callable_tools] == callable_names
    assert len(use.tools) == 3
    assert use.name == ("b" if mode is ToolMode.NAMED else None)


def test_parallel_calls_can_be_turned_off() -> None:
    assert not chat(tools=[TOOL], parallel_tool_calls=False).tool_use.is_parallel
    assert chat(tools=[TOOL], parallel_tool_calls=None).tool_use.is_parallel
    assert chat_refusal(tools=[TOOL], parallel_tool_calls="no").param == "parallel_tool_calls"


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ("x", "tools"),
        ([TOOL] * (MAX_TOOLS + 1), "tools"),
        ([TOOL, TOOL], "tools[1]"),
        (["f"], "tools[0]"),
        ([{}], "tools[0].type"),
        ([{"type": 5}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].name"),
        ([{"type": "function", "function": "f"}], "tools[0].function"),
        ([function(None)], "tools[0].function.name"),
        ([function("")], "tools[0].function.name"),
        ([function("a b\n")], "tools[0].function.name"),
        ([function("a\n")], "tools[0].function.name"),
        ([function("x" * 65)], "tools[0].function.name"),
        ([function("😸")], "tools[0].function.name"),
        ([function("a\0")], "tools[0].function.name"),
        ([function("<|im_end|>")], "tools[0].function.name"),
        ([TOOL, function("g", description=5)], "tools[1].function.description"),
        ([function(parameters="x")], "tools[0].function.parameters"),
        ([function(parameters=[])], "tools[0].function.parameters"),
        ([function(parameters=True)], "tools[0].function.parameters"),
        ([function(parameters={"type": "string"})], "tools[0].function.parameters"),
        ([function(strict="yes")], "tools[0].function.strict"),
    ],
)
def test_a_tool_that_is_wrong_is_named(tools: object, param: str) -> None:
    assert chat_refusal(tools=tools).param == param


@pytest.mark.parametrize("kind", ["custom", "web_search", "file_search", "<|im_end|>"])
def test_tools_of_other_kinds_are_refused_by_name(kind: str) -> None:
    error = chat_refusal(tools=[TOOL, {"type": kind, kind: {"name": "x"}}])
    assert isinstance(error, UnsupportedParameter)
    assert error.param == "tools[1].type"
    assert (kind in error.message) == kind.isidentifier()


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        (5, "tool_choice"),
        ([], "tool_choice"),
        ("nope", "tool_choice"),
        ("", "tool_choice"),
        ({"type": "function", "function": {"name": "nope"}}, "tool_choice.function.name"),
        ({"type": "function", "function": {}}, "tool_choice.function.name"),
        ({"type": "function", "function": "f"}, "tool_choice.function"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "custom", "custom": {"name": "f"}}, "tool_choice.type"),
        ({"type": "allowed_tools", "allowed_tools": {"tools": [TOOL]}}, "tool_choice.allowed_tools.mode"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": [TOOL]}},
            "tool_choice.allowed_tools.mode",
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
            "tool_choice.allowed_tools.tools",
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function("nope")]}},
            "tool_choice.allowed_tools.tools[0].function.name",
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": ["f"]}, "tool_choice.tools[0]"),
    ],
)
def test_a_choice_that_is_wrong_is_named(choice: object, param: str) -> None:
    assert chat_refusal(tools=[TOOL], tool_choice=choice).param == param


@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}]
)
def test_a_choice_without_tools_is_refused(choice: object) -> None:
    assert chat_refusal(tool_choice=choice).param == "tool_choice"
    assert chat_refusal(tool_choice=choice, tools=None).param == "tool_choice"


def test_choosing_from_an_empty_list_is_refused() -> None:
    assert chat_refusal(tools=[], tool_choice="required").param == "tool_choice"


def test_as_many_tools_as_openai_allows_but_not_any_size() -> None:
    tools = [function(f"tool_{index}", parameters=SCHEMA) for index in range(MAX_TOOLS)]
    assert len(chat(tools=tools).tool_use.tools) == MAX_TOOLS
    large = {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 100_000}}}
    tools = [function(f"tool_{index}", parameters=large) for index in range(MAX_TOOLS)]
    assert chat_refusal(tools=tools).param == "tools"
    assert chat(tools=[function(parameters={"x": "y" * (MAX_TOOLS_CHARS // 2)})]).tool_use.tools


def test_unknown_fields_of_tools_are_listed_once() -> None:
    tools = [{**function(name, cache=1), "eager": True} for name in "ab"]
    assert chat(tools=tools).ignored_parameters == ("tools[].eager", "tools[].function.cache")


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "object", "properties": {"\\ud800": {}}}',
        '{"type": "object", "description": "\\udfff"}',
        '{"a":' * 130 + "1" + "}" * 130,
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": 1e999}',
    ],
)
def test_schemas_that_nobody_could_write_again_are_no_json(schema: str) -> None:
    tool = f'{{"type": "function", "function": {{"name": "f", "parameters": {schema}}}}}'
    body = f'{{"model": "m", "messages": [{{"role": "user", "content": "x"}}], "tools": [{tool}]}}'
    with pytest.raises(InvalidRequest):
        parse_chat_request(body.encode(), strict_fields=False)
