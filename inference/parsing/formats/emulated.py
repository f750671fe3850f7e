"""Calls in the convention for models whose template knows no tools: a word, then a JSON object.

    TOOL_CALL {"name": "f", "arguments": {"a": 1}}

The word may stand anywhere in the text. What follows it must be an object with the name of a function that
was offered; everything else is text, the word included.
"""

from __future__ import annotations

import re
from typing import Final

from inference.domain.constraint import ConstraintSpec
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import tagged_calls
from inference.parsing.formats.json_calls import CallShape, JsonCalls, Outcome, call_object, rest_of_arguments
from inference.parsing.formats.message_format import Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource

# inference/prompting/tool_emulation.py asks models for this word.
MARKER: Final = "TOOL_CALL"
_GAP: Final = re.compile(r"[\s:]+")
_MAX_GAP_CHARS: Final = 256


class EmulatedFormat(JsonCalls):
    name = "emulated"
    begin = MARKER
    shape = CallShape(arguments=("arguments",), must_be_known=True)
    thinks_anywhere = True
    trims_content = True

    def __init__(self, thinking: Thinking | None = None) -> None:
        """`thinking` is how the model does it; `<think>` is known in any case."""
        super().__init__(thinking or Thinking("<think>", "</think>"))

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from source.run(_GAP, max_chars=_MAX_GAP_CHARS)
        outcome = yield from call_object(source, writer, self.shape)
        if outcome is Outcome.BROKEN:
            yield from rest_of_arguments(source, writer, "\n")
        return outcome is not Outcome.NONE

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [self.object_tag(tool, begin=f"{MARKER} ") for tool in tools.callable_tools]
        return tagged_calls(tools, tags, trigger=MARKER, separator="\n")


EMULATED: Final = EmulatedFormat()
