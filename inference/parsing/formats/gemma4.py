"""Gemma 4: objects without quotes around keys, and a token around strings.

    <|channel>thought
    …<channel|>Let me look.<|tool_call>call:f{a:1,b:<|"|>x<|"|>}<tool_call|>

Thinking may come again behind text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from inference.domain.constraint import Choice, ConstraintSpec, InOrder, JsonSchema, Regex, Tag, TaggedText
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, one_tag, tagged_calls
from inference.parsing.formats.json_calls import call_name, rest_of_arguments
from inference.parsing.formats.literal_values import GEMMA, literal_object
from inference.parsing.formats.message_format import MarkedFormat, Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.schema_types import value_schema, value_types
from inference.parsing.formats.text_source import Steps, TextSource

_BEGIN: Final = "<|tool_call>"
_END: Final = "<tool_call|>"
_QUOTE: Final = '<|"|>'
_SCALARS: Final = ("integer", "number", "boolean", "null")
_MAX_DEPTH: Final = 8


class Gemma4Format(MarkedFormat):
    name = "gemma-4"
    call_markers = (_BEGIN,)
    thinking = Thinking("<|channel>thought", "<channel|>", ends_at_call=True)
    thinks_anywhere = True
    # The models end thinking that they have not begun.
    silent_texts = ("<channel|>",)
    preserved_texts = (_BEGIN, _END, "<|channel>", "<channel|>", _QUOTE)

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from source.space()
        if (yield from source.expect("call:")) is None:
            return False
        name = yield from call_name(source)
        if not name or (yield from source.next_char()) != "{":
            return False
        source.end_attempt()
        writer.begin_call(name)
        if not (yield from literal_object(source, writer.arguments, GEMMA)):
            if not source.is_ended or source.at < len(source.text):
                yield from rest_of_arguments(source, writer, _END)
            return True
        writer.end_call()
        if not writer.is_complete:
            yield from source.space()
            yield from source.expect(_END)
        return True

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [
            Tag(f"{_BEGIN}call:{tool.name}", _object(arguments_schema(tool), 0), _END)
            for tool in tools.callable_tools
        ]
        return tagged_calls(tools, tags, trigger=_BEGIN)


def _object(schema: Mapping[str, Any], depth: int) -> ConstraintSpec:
    """In Gemma's notation: first the members that must be there, in the schema's order."""
    properties = schema.get("properties")
    keys = list(properties) if isinstance(properties, Mapping) else []
    required = [key for key in keys if key in (schema.get("required") or ())]
    parts: list[ConstraintSpec] = []
    for key in required:
        parts.append(one_tag(Tag(f"{',' if parts else ''}{key}:", _value(schema, key, depth + 1))))
    gap = "," if required else ""
    others = [Tag(f"{gap}{key}:", _value(schema, key, depth + 1)) for key in keys if key not in required]
    if others:
        parts.append(_some(others, separator="" if required else ","))
    return one_tag(Tag("{", InOrder(tuple(parts)), "}"))


def _value(schema: Mapping[str, Any], key: str, depth: int) -> ConstraintSpec:
    own, types = value_schema(schema, key), value_types(schema, key)
    options: list[Tag] = []
    if "string" in types:
        enum = own.get("enum")
        is_enum = isinstance(enum, list) and enum and all(isinstance(one, str) for one in enum)
        body: ConstraintSpec = Choice(tuple(enum)) if is_enum and enum else Regex("(?s:.*)")
        options.append(Tag(_QUOTE, body, _QUOTE))
    scalars = [kind for kind in _SCALARS if kind in types]
    if scalars:
        is_plain = types <= set(_SCALARS)
        options.append(Tag("", JsonSchema(own if is_plain else {"type": scalars})))
    if "array" in types and depth < _MAX_DEPTH:
        item = one_tag(
            Tag("", _value({**own, "properties": {"items": own.get("items", {})}}, "items", depth + 1))
        )
        options.append(Tag("[", _some([Tag("", item)], separator=","), "]"))
    if "object" in types and depth < _MAX_DEPTH:
        options.append(Tag("", _object(own, depth + 1)))
    return TaggedText(
        tags=tuple(options or [Tag("", JsonSchema({"type": list(_SCALARS)}))]),
        triggers=(),
        has_free_text=False,
        has_later_text=False,
        min_tags=1,
        max_tags=1,
    )


def _some(tags: Sequence[Tag], *, separator: str) -> TaggedText:
    return TaggedText(
        tags=tuple(tags), triggers=(), has_free_text=False, has_later_text=False, separator=separator
    )


def of_template(source: str) -> Gemma4Format | None:
    return Gemma4Format() if "<|tool_call>call:" in source else None
