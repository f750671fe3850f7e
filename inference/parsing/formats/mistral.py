"""Mistral's models: `[TOOL_CALLS]`, and behind it what each generation writes.

    Nemo                         [TOOL_CALLS][{"name": "f", "arguments": {…}, "id": "q0w1e2r3t"}, …]
    Small 3.2                    [TOOL_CALLS]f[CALL_ID]q0w1e2r3t[ARGS]{…}, again for each call
    Devstral, Ministral 3        [TOOL_CALLS]f[ARGS]{…}, again for each call

Their templates want ids of nine letters and digits.
"""

from __future__ import annotations

import re
from typing import Final

from inference.domain.constraint import Choice, ConstraintSpec, InOrder, JsonSchema, Regex, Tag
from inference.domain.tools import ToolSpec, ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, one_tag, tagged_calls
from inference.parsing.formats.call_ids import MISTRAL_CHARS, new_mistral_call_id
from inference.parsing.formats.json_calls import CallShape, JsonCalls, call_name, json_arguments
from inference.parsing.formats.message_format import MarkedFormat, MessageFormat
from inference.parsing.formats.message_writer import MAX_ID_CHARS, MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource
from inference.parsing.formats.thinking_marks import thinking_of

_ID: Final = re.compile(r"[A-Za-z0-9_\-]+")
_ID_PATTERN: Final = f"[a-zA-Z0-9]{{{MISTRAL_CHARS}}}"


class NemoFormat(JsonCalls):
    """The id comes last, and the history must have it: the arguments wait for it."""

    name = "mistral-nemo"
    begin, is_list = "[TOOL_CALLS]", True
    shape = CallShape(is_id_late=True)
    new_call_id = staticmethod(new_mistral_call_id)

    def object_tag(self, tool: ToolSpec, *, begin: str = "", end: str = "") -> Tag:
        plain = super().object_tag(tool, begin=begin)
        body = InOrder((plain.body, Choice((', "id": "',)), Regex(_ID_PATTERN)))
        return Tag(plain.begin, body, '"}' + end)


class MistralFormat(MarkedFormat):
    name = "mistral"
    call_markers = ("[TOOL_CALLS]",)
    new_call_id = staticmethod(new_mistral_call_id)

    def __init__(self, source: str) -> None:
        self._has_ids = "[CALL_ID]" in source
        self.thinking = thinking_of(source)
        self.preserved_texts = ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[THINK]", "[/THINK]")

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from source.space()
        name = yield from call_name(source)
        mark = yield from source.expect("[ARGS]", "[CALL_ID]")
        call_id = ""
        if mark == "[CALL_ID]":
            call_id = yield from source.run(_ID, max_chars=MAX_ID_CHARS)
            mark = yield from source.expect("[ARGS]")
        if not name or mark is None:
            return False
        yield from json_arguments(source, writer, name, call_id, ends=("[/TOOL_CALLS]",))
        return True

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [self._tag(tool) for tool in tools.callable_tools]
        return tagged_calls(tools, tags, trigger="[TOOL_CALLS]")

    def _tag(self, tool: ToolSpec) -> Tag:
        arguments = JsonSchema(arguments_schema(tool))
        if not self._has_ids:
            return Tag(f"[TOOL_CALLS]{tool.name}[ARGS]", arguments)
        return Tag(
            f"[TOOL_CALLS]{tool.name}[CALL_ID]",
            InOrder((Regex(_ID_PATTERN), one_tag(Tag("[ARGS]", arguments)))),
        )


def of_template(source: str) -> MessageFormat | None:
    if "[TOOL_CALLS]" not in source:
        return None
    return MistralFormat(source) if "[ARGS]" in source else NemoFormat()
