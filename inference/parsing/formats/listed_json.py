"""A list of JSON calls behind a mark, in the words of families that differ in little else.

Nemotron-Nano-v2    <TOOLCALL>[{"name", "arguments"}, …]</TOOLCALL>
Apriel              <tool_calls>[{"name", "arguments"}, …]</tool_calls>
MiniMax-M1          <tool_calls>, a call a line, </tool_calls>
Granite 3.3         <|tool_call|>[{"name", "arguments"}, …]
FireFunction 2      functools[{"name", "arguments"}, …]
"""

from __future__ import annotations

from inference.domain.constraint import ConstraintSpec
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import listed_calls
from inference.parsing.formats.json_calls import CallShape, JsonCalls
from inference.parsing.formats.message_format import MessageFormat, Thinking
from inference.parsing.formats.thinking_marks import thinking_of


class NemotronFormat(JsonCalls):
    name = "nemotron-nano-v2"
    begin, end, is_list = "<TOOLCALL>", "</TOOLCALL>", True


class AprielFormat(JsonCalls):
    name = "apriel"
    begin, end, is_list = "<tool_calls>", "</tool_calls>", True
    silent_texts = ("[END FINAL RESPONSE]",)


class MiniMaxM1Format(JsonCalls):
    name = "minimax-m1"
    begin, end = "<tool_calls>", "</tool_calls>"

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [self.object_tag(tool) for tool in tools.callable_tools]
        return listed_calls(tools, self.begin, f"{self.begin}\n", f"\n{self.end}", tags, separator="\n")


class GraniteFormat(JsonCalls):
    """The answer proper has tags of its own, as thinking has."""

    name = "granite-3.3"
    begin, is_list = "<|tool_call|>", True
    thinking = Thinking("<think>", "</think>")
    silent_texts = ("<response>", "</response>")


class FireFunctionFormat(JsonCalls):
    name = "firefunction-v2"
    begin, is_list = "functools", True
    shape = CallShape(must_be_known=True, is_name_first=True)


def of_template(source: str) -> MessageFormat | None:
    if "<TOOLCALL>" in source:
        return NemotronFormat(thinking_of(source))
    if "<|tool_call|>" in source:
        return GraniteFormat()
    if "functools[" in source:
        return FireFunctionFormat()
    if "<tool_calls>" in source:
        is_apriel = "[BEGIN FINAL RESPONSE]" in source or "<tool_calls>[" in source
        kind = AprielFormat if is_apriel else MiniMaxM1Format
        return kind(thinking_of(source))
    return None
