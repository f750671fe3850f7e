"""Cohere's Command models.

Command-R7B, Command-A and Cohere2 MoE write each part of an answer between marks of its own:

    <|START_THINKING|>…<|END_THINKING|><|START_ACTION|>[
        {"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}
    ]<|END_ACTION|>
    <|START_RESPONSE|>…<|END_RESPONSE|>

Command-R and R+ write `Action:` and a list without ids in a fence of JSON.
"""

from __future__ import annotations

import json
from typing import Final

from inference.domain.constraint import Choice, ConstraintSpec, InOrder, JsonSchema, Regex, Tag
from inference.domain.tools import ToolSpec, ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, listed_calls, one_tag
from inference.parsing.formats.json_calls import CallShape, JsonCalls
from inference.parsing.formats.message_format import MessageFormat, Thinking

_MAX_ID_DIGITS: Final = 3


class CommandFormat(JsonCalls):
    name = "command-r7b"
    begin, end, is_list = "<|START_ACTION|>", "<|END_ACTION|>", True
    shape = CallShape(name="tool_name", arguments=("parameters",), id="tool_call_id")
    thinking = Thinking("<|START_THINKING|>", "<|END_THINKING|>", ends_at_call=True)
    is_always_marked = True
    silent_texts = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")

    def __init__(self, source: str) -> None:
        super().__init__()
        kind = "TEXT" if "<|START_TEXT|>" in source else "RESPONSE"
        self._answer_marks = f"<|START_{kind}|>", f"<|END_{kind}|>"

    def object_tag(self, tool: ToolSpec, *, begin: str = "", end: str = "") -> Tag:
        number = Regex(f"[0-9]{{1,{_MAX_ID_DIGITS}}}")
        named = Choice((f'", "tool_name": {json.dumps(tool.name)}, "parameters": ',))
        call = InOrder((number, named, JsonSchema(arguments_schema(tool))))
        return Tag(f'{begin}{{"tool_call_id": "', call, "}" + end)

    def answer(self, asked: ConstraintSpec) -> ConstraintSpec:
        begin, end = self._answer_marks
        return one_tag(Tag(begin, asked, end))

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [self.object_tag(tool, begin="\n    ") for tool in tools.callable_tools]
        begin, end = f"{self.begin}[", f"\n]{self.end}"
        return listed_calls(tools, self.begin, begin, end, tags, separator=",")


class CommandRFormat(JsonCalls):
    """Its calls begin with a word that any text may begin with."""

    name = "command-r-plus"
    begin, opening, end, is_list = "Action:", "```json", "```", True
    must_open = True
    shape = CallShape(
        name="tool_name", arguments=("parameters",), id="tool_call_id", must_be_known=True, is_name_first=True
    )

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [
            Tag(
                f'\n    {{\n        "tool_name": {json.dumps(tool.name)},\n        "parameters": ',
                JsonSchema(arguments_schema(tool)),
                "\n    }",
            )
            for tool in tools.callable_tools
        ]
        trigger = "Action:\n```json"
        return listed_calls(tools, trigger, f"{trigger}\n[", "\n]\n```", tags, separator=",")


def of_template(source: str) -> MessageFormat | None:
    if "<|START_ACTION|>" in source:
        return CommandFormat(source)
    if "Action:" in source and "```json" in source and "tool_name" in source:
        return CommandRFormat()
    return None
