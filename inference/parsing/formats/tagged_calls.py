"""Calls whose arguments stand in tags, one for each parameter, as text and not as JSON.

What the text means depends on the parameter's schema: `5` is a number where a number is asked for, and
a string where a string is. Strings are sent on while they come, anything else when its tag closes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from inference.domain.constraint import ConstraintSpec, InOrder, JsonSchema, Regex, Tag
from inference.domain.tools import ToolSpec
from inference.parsing.formats.call_constraints import arguments_schema, one_tag
from inference.parsing.formats.json_calls import call_name
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.schema_types import value_schema, value_types
from inference.parsing.formats.text_source import Steps, TextSource, markers

_MAX_KEY_CHARS: Final = 512
_KEY: Final = re.compile(r'[^<>|"\n]+')
_ATTRIBUTES: Final = re.compile(r"[^<>|\n]+")
_STRING_LIKE: Final = frozenset({"string", "null"})
_CDATA: Final = "<![CDATA["
_CDATA_END: Final = "]]>"
_MAX_NULL_CHARS: Final = 64
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


@dataclass(frozen=True, slots=True)
class TagStyle:
    """`call_begin` NAME `call_tail`, then parameters, then `call_end`; a parameter is `parameter_begin` KEY
    `parameter_tail` (and where there is one `value_begin`) VALUE `parameter_end`. Between a name or a key
    and its tail there may be a `quote` and attributes. `line_break` is what this family writes between
    them, `value_break` around a value."""

    call_begin: str
    call_tail: str
    call_end: str
    parameter_begin: str
    parameter_tail: str
    parameter_end: str
    quote: str = ""
    value_begin: str = ""
    line_break: str = "\n"
    value_break: str = ""
    string_attribute: str = ""
    """The attribute of a key whose value is a string; with another value for what is none."""
    json_attribute: str = ""
    has_types: bool = False
    """A key has an attribute that names its value's type; a call has one that counts it."""
    has_cdata: bool = False
    """A value may stand in `<![CDATA[…]]>`."""


class ArgumentWriter:
    """Values as text to the JSON text of an object, for one call."""

    def __init__(self, writer: MessageWriter, parameters: Mapping[str, Any]) -> None:
        self._writer = writer
        self._parameters = parameters
        self._num_values = 0
        self._types: frozenset[str] = frozenset()
        self._held: list[str] = []
        self._num_held = 0
        self._is_streamed = False

    def begin(self, key: str, *, is_string: bool | None = None) -> None:
        """`is_string` is what the model says of it; the schema says otherwise what it may be."""
        opening = "{" if not self._num_values else ", "
        self._num_values += 1
        self._writer.arguments(f"{opening}{json.dumps(key, ensure_ascii=False)}: ")
        self._types = value_types(self._parameters, key)
        if is_string is not None:
            self._types = frozenset({"string"}) if is_string else self._types - {"string"} or self._types
        self._held.clear()
        self._num_held = 0
        self._is_streamed = False
        if self._types == {"string"}:
            self._stream()

    def text(self, text: str) -> None:
        if self._is_streamed:
            self._writer.arguments(_escaped(text))
            return
        self._held.append(text)
        self._num_held += len(text)
        if self._types == _STRING_LIKE:
            held = "".join(self._held).strip()
            is_null = "null".startswith(held) or "None".startswith(held)
            if not is_null or self._num_held > _MAX_NULL_CHARS:
                self._stream()

    def end(self) -> None:
        if self._is_streamed:
            self._writer.arguments('"')
            return
        held = "".join(self._held)
        value = _as_json(held, self._types)
        self._writer.arguments(f'"{_escaped(held)}"' if value is None else value)

    def close(self) -> None:
        self._writer.arguments("}" if self._num_values else "{}")

    def _stream(self) -> None:
        self._is_streamed = True
        self._writer.arguments('"' + _escaped("".join(self._held)))


def tagged_call(
    source: TextSource, writer: MessageWriter, style: TagStyle, *, must_be_known: bool = False
) -> Steps[bool]:
    """Read a call behind its `call_begin`. False where it is none: no name, or with `must_be_known` one
    that was not offered."""
    name = yield from call_name(source)
    if not name or (must_be_known and not writer.may_call(name)):
        return False
    yield from source.run(_ATTRIBUTES, max_chars=_MAX_KEY_CHARS)
    if style.call_tail and (yield from source.expect(style.call_tail)) is None:
        return False
    source.end_attempt()
    writer.begin_call(name)
    tool = next((tool for tool in writer.tools.tools if tool.name == name), None)
    arguments = ArgumentWriter(writer, (tool.parameters or {}) if tool is not None else {})
    marks = markers(style.parameter_begin, style.call_end)
    while True:
        mark = yield from source.until(marks, _ignore)
        if mark is None:
            return True
        if mark == style.call_end:
            arguments.close()
            writer.end_call()
            return True
        if not (yield from _parameter(source, arguments, style)):
            return True


def _parameter(source: TextSource, arguments: ArgumentWriter, style: TagStyle) -> Steps[bool]:
    """Read one behind its `parameter_begin`. False where the text ended in it."""
    key = yield from source.run(_KEY, max_chars=_MAX_KEY_CHARS)
    attributes = yield from source.run(_ATTRIBUTES, max_chars=_MAX_KEY_CHARS)
    if (yield from source.expect(style.parameter_tail)) is None:
        return not source.is_ended
    if style.value_begin:
        yield from source.space()
        if (yield from source.expect(style.value_begin)) is None:
            return not source.is_ended
    is_string: bool | None = None
    if style.string_attribute and style.string_attribute in attributes:
        is_string = True
    elif style.json_attribute and style.json_attribute in attributes:
        is_string = False
    arguments.begin(key.strip(), is_string=is_string)
    if style.has_cdata and (yield from source.expect(_CDATA)) is not None:
        if (yield from source.until(markers(_CDATA_END), arguments.text)) is None:
            return False
        arguments.end()
        return (yield from source.until(markers(style.parameter_end), _ignore)) is not None
    # A break behind the tag has one that belongs to it before the end.
    has_break = (yield from source.expect("\n")) is not None
    held = False

    def take(text: str) -> None:
        nonlocal held
        if has_break:
            text = "\n" + text if held else text
            held = text.endswith("\n")
            text = text[:-1] if held else text
        if text:
            arguments.text(text)

    if (yield from source.until(markers(style.parameter_end), take)) is None:
        return False
    arguments.end()
    return True


def tagged_call_body(tool: ToolSpec, style: TagStyle) -> ConstraintSpec:
    """What may stand behind a call's tail and before its end: the parameters that must be there, in the
    schema's order, then any of the others, each once."""
    schema = arguments_schema(tool)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        properties = {}
    required = [key for key in schema.get("required") or () if key in properties]
    keys = [key for key in properties if key in required] + [key for key in properties if key not in required]
    return InOrder(
        tuple([one_tag(_parameter_tag(schema, key, style), is_optional=key not in required) for key in keys])
    )


def _parameter_tag(schema: Mapping[str, Any], key: str, style: TagStyle) -> Tag:
    types = value_types(schema, key)
    attribute = ""
    if style.string_attribute:
        attribute = style.string_attribute if "string" in types else style.json_attribute
    if style.has_types:
        attribute = f' type="{_type_name(types)}"'
    begin = f"{style.parameter_begin}{key}{style.quote}{attribute}{style.parameter_tail}"
    if style.value_begin:
        begin += style.line_break + style.value_begin
    one = value_schema(schema, key)
    body: ConstraintSpec = JsonSchema(one) if "string" not in types else Regex(_text_pattern(one))
    end = style.value_break + style.parameter_end + style.line_break
    return Tag(begin + style.value_break, body, end)


def _type_name(types: frozenset[str]) -> str:
    """The one word for what may be several types: JavaScript's."""
    names = ("string", "object", "array", "number", "integer", "boolean", "null")
    name = next((one for one in names if one in types), "string")
    return "number" if name == "integer" else name


def _text_pattern(schema: Mapping[str, Any]) -> str:
    """Strings are written without quotes: one of the schema's own, or any."""
    options = schema.get("enum") if "const" not in schema else [schema["const"]]
    if isinstance(options, list) and options and all(isinstance(option, str) for option in options):
        return "|".join(re.escape(option) for option in options)
    return r"(?s:.*)"


def _as_json(text: str, types: frozenset[str]) -> str | None:
    """The JSON of a value that is no string, None where it is one."""
    stripped = text.strip()
    stripped = _WORDS.get(stripped, stripped)
    try:
        value = json.loads(stripped, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, str):
        return None if "string" in types else stripped
    return stripped if "string" not in types or _type(value) & types else None


def _type(value: object) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"number"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ignore(text: str) -> None:
    """Space between tags, or what does not belong there."""
