from __future__ import annotations

import ast
import json

import pytest

from inference.domain.tools import ToolCall
from inference.prompting.written_calls import notation_of

PYTHON = notation_of("List of tools: [")
JSON = notation_of("<|tool_call|>")


def test_notations_are_known_by_the_template() -> None:
    assert PYTHON is not None
    assert (PYTHON.begin, PYTHON.end) == ("<|tool_call_start|>", "<|tool_call_end|>")
    assert notation_of("<|tool_list_start|>") is PYTHON
    assert JSON is not None
    assert (JSON.begin, JSON.end) == ("<|tool_call|>", "")
    assert notation_of("<tool_call>") is None


def test_calls_as_python_writes_them() -> None:
    assert PYTHON is not None
    calls = (ToolCall("a", "f", '{"a": 1, "b": "x"}'), ToolCall("b", "g", ""))
    assert PYTHON.body(calls) == '[f(a=1, b="x"), g()]'


@pytest.mark.parametrize(
    "value", [None, True, False, 0, -1.5, "", 'quo"te\n\\', "é😸", [], [1, [None]], {}, {"a": {"b": [True]}}]
)
def test_values_as_python_reads_them(value: object) -> None:
    assert PYTHON is not None
    text = PYTHON.body([ToolCall("a", "f", json.dumps({"x": value}))])
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.List)
    assert isinstance(call.elts[0], ast.Call)
    assert ast.literal_eval(call.elts[0].keywords[0].value) == value


def test_calls_as_a_list_of_json() -> None:
    assert JSON is not None
    calls = (ToolCall("a", "f", '{"a":1}'), ToolCall("b", "g", "cut o"))
    assert json.loads(JSON.body(calls)) == [
        {"name": "f", "arguments": {"a": 1}},
        {"name": "g", "arguments": {"_raw": "cut o"}},
    ]
