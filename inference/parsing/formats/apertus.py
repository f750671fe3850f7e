"""Apertus: a list of objects with one key each, the name, whose value is the arguments.

<|inner_prefix|>…<|inner_suffix|><|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>
"""

from __future__ import annotations

import json

from inference.domain.constraint import ConstraintSpec, JsonSchema, Tag
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, listed_calls
from inference.parsing.formats.json_calls import MAX_NAME_CHARS, json_arguments
from inference.parsing.formats.json_scanner import json_string
from inference.parsing.formats.message_format import MarkedFormat, Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource


class ApertusFormat(MarkedFormat):
    name = "apertus"
    call_markers = ("<|tools_prefix|>",)
    thinking = Thinking("<|inner_prefix|>", "<|inner_suffix|>", ends_at_call=True)
    silent_texts = ("<|tools_suffix|>",)
    preserved_texts = ("<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>")

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from source.space()
        if (yield from source.expect("[")) is None:
            return False
        num_read = 0
        while True:
            yield from source.space()
            if (yield from source.expect("{")) is None:
                return num_read > 0
            yield from source.space()
            name = yield from json_string(source, max_chars=MAX_NAME_CHARS)
            yield from source.space()
            if not name or (yield from source.expect(":")) is None:
                return num_read > 0
            yield from json_arguments(source, writer, name, ends=("<|tools_suffix|>",))
            num_read += 1
            yield from source.space()
            if writer.is_complete or (yield from source.expect("}")) is None:
                return True
            yield from source.space()
            if (yield from source.expect(",")) is None:
                yield from source.expect("]")
                return True

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [
            Tag(f"{{{json.dumps(tool.name)}: ", JsonSchema(arguments_schema(tool)), "}")
            for tool in tools.callable_tools
        ]
        return listed_calls(tools, "<|tools_prefix|>", "<|tools_prefix|>[", "]<|tools_suffix|>", tags)


def of_template(source: str) -> ApertusFormat | None:
    return ApertusFormat() if "<|tools_prefix|>" in source else None
