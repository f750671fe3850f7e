"""Functionary 3.2: every part of an answer begins with whom it is for.

    >>>all
    Let me look.>>>f
    {"a": 1}

The prompt ends with the first `>>>`.
"""

from __future__ import annotations

from inference.domain.constraint import ConstraintSpec, JsonSchema, Tag
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, one_tag, tagged_calls
from inference.parsing.formats.json_calls import call_name, json_arguments
from inference.parsing.formats.message_format import MarkedFormat
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource, markers

_MARK = ">>>"


class RecipientFormat(MarkedFormat):
    name = "functionary-v3.2"
    call_markers = (_MARK,)
    is_always_marked = True

    def read(self, source: TextSource, writer: MessageWriter, *, is_thinking_open: bool) -> Steps[None]:
        yield from source.space()
        mark = (yield from source.expect(_MARK)) or ""
        while True:
            source.begin_attempt(mark)
            is_part = yield from self.call(source, writer, mark)
            text = source.end_attempt()
            if not is_part:
                writer.content(text)
            if writer.is_complete:
                return
            found = yield from source.until(markers(_MARK), writer.content)
            if found is None:
                return
            mark = found

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        name = yield from call_name(source)
        is_known = name == "all" or writer.may_call(name)
        if not is_known or (yield from source.expect("\n")) is None:
            return False
        if name != "all":
            yield from json_arguments(source, writer, name, ends=(_MARK,))
        return True

    def answer(self, asked: ConstraintSpec) -> ConstraintSpec:
        return one_tag(Tag("all\n", asked))

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        # Free text would have to begin with its own recipient: enforced calls only.
        if not tools.is_enforced:
            return None
        tags = [Tag(f"{tool.name}\n", JsonSchema(arguments_schema(tool))) for tool in tools.callable_tools]
        return tagged_calls(tools, tags, trigger=_MARK, separator=_MARK)


def of_template(source: str) -> RecipientFormat | None:
    return RecipientFormat() if ">>>all" in source else None
