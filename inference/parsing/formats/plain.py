"""Answers without calls: text, behind thinking where the template's models think."""

from __future__ import annotations

from inference.domain.constraint import ConstraintSpec
from inference.domain.tools import ToolUse
from inference.parsing.formats.message_format import MarkedFormat, Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource
from inference.parsing.formats.thinking_marks import thinking_of


class PlainFormat(MarkedFormat):
    """Nothing is a call here, whatever it looks like."""

    name = "plain"
    has_calls = False

    def __init__(self, thinking: Thinking | None) -> None:
        self.thinking = thinking
        self.preserved_texts = (thinking.begin, thinking.end) if thinking is not None else ()

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from ()
        return False

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        return None


def of_template(source: str) -> PlainFormat:
    return PlainFormat(thinking_of(source))
