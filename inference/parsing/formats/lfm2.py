"""LFM2 and LFM2.5: a list of calls as Python writes them.

<|tool_call_start|>[f(a=1, b="x"), g()]<|tool_call_end|>
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from inference.domain.constraint import ConstraintSpec, InOrder, JsonSchema, Tag, TaggedText
from inference.domain.tools import ToolSpec, ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, listed_calls, one_tag
from inference.parsing.formats.json_calls import call_name, rest_of_arguments
from inference.parsing.formats.literal_values import PYTHON, literal
from inference.parsing.formats.message_format import MarkedFormat
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.schema_types import value_schema
from inference.parsing.formats.text_source import Steps, TextSource
from inference.parsing.formats.thinking_marks import thinking_of

_KEY: Final = re.compile(r"\w+")
_BEGIN: Final = "<|tool_call_start|>"
_END: Final = "<|tool_call_end|>"


class Lfm2Format(MarkedFormat):
    name = "lfm2"
    call_markers = (_BEGIN,)
    silent_texts = (_END,)
    preserved_texts = (_BEGIN, _END, "<think>", "</think>")

    def __init__(self, source: str) -> None:
        self.thinking = thinking_of(source)

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from source.space()
        is_list = (yield from source.expect("[")) is not None
        num_read = 0
        while True:
            yield from source.space()
            name = yield from call_name(source)
            if not name or (yield from source.expect("(")) is None:
                return num_read > 0
            source.end_attempt()
            writer.begin_call(name)
            if not (yield from self._arguments(source, writer)):
                if not source.is_ended or source.at < len(source.text):
                    yield from rest_of_arguments(source, writer, _END)
                return True
            writer.end_call()
            num_read += 1
            yield from source.space()
            if writer.is_complete or (yield from source.expect(",")) is None:
                break
        if is_list and not writer.is_complete:
            yield from source.expect("]")
        return True

    def _arguments(self, source: TextSource, writer: MessageWriter) -> Steps[bool]:
        """`a=1, b="x")` as an object."""
        writer.arguments("{")
        is_first = True
        while True:
            yield from source.space()
            if (yield from source.expect(")")) is not None:
                writer.arguments("}")
                return True
            if not is_first:
                if (yield from source.expect(",")) is None:
                    return False
                yield from source.space()
                writer.arguments(", ")
            is_first = False
            key = yield from source.run(_KEY, max_chars=512)
            yield from source.space()
            if not key or (yield from source.expect("=")) is None:
                return False
            writer.arguments(json.dumps(key, ensure_ascii=False) + ": ")
            if not (yield from literal(source, writer.arguments, PYTHON)):
                return False

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [self._tag(tool) for tool in tools.callable_tools]
        return listed_calls(tools, _BEGIN, f"{_BEGIN}[", f"]{_END}", tags)

    def _tag(self, tool: ToolSpec) -> Tag:
        """Arguments by name, those that must be there first; values as JSON, which these models read and
        write as well."""
        schema = arguments_schema(tool)
        properties = schema.get("properties")
        keys = list(properties) if isinstance(properties, Mapping) else []
        required = [key for key in keys if key in (schema.get("required") or ())]
        parts: list[ConstraintSpec] = []
        for key in required:
            gap = ", " if parts else ""
            parts.append(one_tag(Tag(f"{gap}{key}=", JsonSchema(value_schema(schema, key)))))
        others = [
            Tag(f"{', ' if required else ''}{key}=", JsonSchema(value_schema(schema, key)))
            for key in keys
            if key not in required
        ]
        if others:
            parts.append(
                TaggedText(
                    tags=tuple(others),
                    triggers=(),
                    has_free_text=False,
                    has_later_text=False,
                    separator="" if required else ", ",
                )
            )
        return Tag(f"{tool.name}(", InOrder(tuple(parts)), ")")


def of_template(source: str) -> Lfm2Format | None:
    has_tokens = "<|tool_list_start|>" in source and "<|tool_list_end|>" in source
    return Lfm2Format(source) if has_tokens or "List of tools: [" in source else None
