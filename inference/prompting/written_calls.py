"""Calls of a history as their models write them, for templates that write everything but calls.

Some publishers keep calls in the content of messages: their templates describe tools and print results, and
would leave a call in `tool_calls` out. The markers around calls are the template's scaffolding, what is
between them is the caller's.

LFM2, LFM2.5    <|tool_call_start|>[f(a=1, b="x"), g()]<|tool_call_end|>
Granite 3.3     <|tool_call|>[{"name": "f", "arguments": {"a": 1}}]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from inference.domain.tools import ToolCall
from inference.prompting.call_arguments import arguments_object, parse_arguments

_PYTHON_WORDS = {True: "True", False: "False", None: "None"}


@dataclass(frozen=True, slots=True)
class CallNotation:
    """`body` is made of all calls of a turn and stands between `begin` and `end`."""

    begin: str
    end: str
    body: Callable[[Sequence[ToolCall]], str]


def _as_python(calls: Sequence[ToolCall]) -> str:
    return f"[{', '.join([_python_call(call) for call in calls])}]"


def _python_call(call: ToolCall) -> str:
    arguments = arguments_object(call.arguments)
    return f"{call.name}({', '.join([f'{name}={_literal(value)}' for name, value in arguments.items()])})"


def _literal(value: Any) -> str:
    """As Python writes it, with JSON's strings."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_literal(name)}: {_literal(item)}" for name, item in value.items()]) + "}"
    if value is None or isinstance(value, bool):
        return _PYTHON_WORDS[value]
    return json.dumps(value, ensure_ascii=False)


def _as_json(calls: Sequence[ToolCall]) -> str:
    named = [{"name": call.name, "arguments": parse_arguments(call.arguments)} for call in calls]
    return json.dumps(named, ensure_ascii=False)


_LFM2 = CallNotation("<|tool_call_start|>", "<|tool_call_end|>", _as_python)
_GRANITE = CallNotation("<|tool_call|>", "", _as_json)


def notation_of(template_source: str) -> CallNotation | None:
    """For a template that writes no calls; None where nobody knows how its models do."""
    if "<|tool_list_start|>" in template_source or "List of tools: [" in template_source:
        return _LFM2
    return _GRANITE if "<|tool_call|>" in template_source else None
