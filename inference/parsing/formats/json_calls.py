"""Calls that are JSON objects: `{"name": …, "arguments": {…}}`, one or a list of them behind a marker.

The arguments are sent on while they are being read. Until then nothing is: a call is told of when its
name is known, and whatever turns out to be none before that is text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from inference.domain.constraint import ConstraintSpec, JsonSchema, Tag
from inference.domain.tools import ToolSpec, ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, listed_calls, tagged_calls
from inference.parsing.formats.json_scanner import StringDecoder, json_string, json_value
from inference.parsing.formats.message_format import MarkedFormat, Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, Take, TextSource, markers

MAX_NAME_CHARS: Final = 512
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/\-]+")


class Outcome(Enum):
    """What a call turned out to be. NONE: no call, nobody was told of one. CUT: the text ended inside it.
    BROKEN: it was told of, and then its arguments were no JSON."""

    COMPLETE = auto()
    NONE = auto()
    CUT = auto()
    BROKEN = auto()


@dataclass(frozen=True, slots=True)
class CallShape:
    """The keys of a call. Where `is_id_late` the id comes behind the arguments, which wait for it. Where
    other JSON may stand in a call's place, the name must be one that was offered (`must_be_known`) and
    come first (`is_name_first`), so that the other JSON need not wait."""

    name: str = "name"
    arguments: tuple[str, ...] = ("arguments", "parameters")
    id: str = "id"
    is_id_late: bool = False
    must_be_known: bool = False
    is_name_first: bool = False


class _CallObject:
    """One of them, while it is being read."""

    def __init__(self, source: TextSource, writer: MessageWriter, shape: CallShape) -> None:
        self._source = source
        self._writer = writer
        self._shape = shape
        self._name = ""
        self._id = ""
        self._held: list[str] = []
        self._has_arguments = False
        self._has_text = False
        """Of the arguments."""
        self._is_begun = False

    def read(self) -> Steps[Outcome]:
        source = self._source
        if (yield from source.expect("{")) is None:
            return Outcome.NONE
        yield from source.space()
        if (yield from source.expect("}")) is not None:
            return self._close()
        while True:
            yield from source.space()
            key = yield from json_string(source, max_chars=MAX_NAME_CHARS)
            yield from source.space()
            if key is None or (yield from source.expect(":")) is None:
                return self._give_up()
            yield from source.space()
            if not (yield from self._value(key)):
                return self._give_up()
            yield from source.space()
            mark = yield from source.expect(",", "}")
            if mark is None:
                return self._give_up()
            if mark == "}":
                return self._close()

    def _value(self, key: str) -> Steps[bool]:
        source, shape = self._source, self._shape
        if key == shape.name and not self._name:
            name = yield from json_string(source, max_chars=MAX_NAME_CHARS)
            self._name = (name or "").strip()
            return bool(self._name) and (not shape.must_be_known or self._writer.may_call(self._name))
        if key in shape.arguments and not self._has_arguments:
            if shape.is_name_first and not self._name:
                return False
            self._has_arguments = True
            return (yield from self._arguments())
        if key == shape.id:
            raw: list[str] = []
            is_whole = yield from json_value(source, raw.append)
            self._id = _plain("".join(raw)) if is_whole else ""
            return is_whole
        if shape.is_name_first and not self._name and key != "type":
            return False
        return (yield from json_value(source, _ignore))

    def _arguments(self) -> Steps[bool]:
        """An object as it is; a string as what it says; null as none."""
        if self._name and (self._id or not self._shape.is_id_late):
            self._begin()
        source = self._source
        first = yield from source.next_char()
        if first == "n":
            return (yield from json_value(source, _ignore))
        take: Take = self._writer.arguments if self._is_begun else self._held.append
        if first == '"':
            decoder, take_text = StringDecoder(), take
            take = lambda raw: take_text(decoder.push(raw))  # noqa: E731
        is_empty = True

        def take_some(text: str) -> None:
            nonlocal is_empty
            is_empty = False
            take(text)

        is_whole = yield from json_value(source, take_some)
        self._has_text = not is_empty
        return is_whole

    def _begin(self) -> None:
        self._is_begun = True
        self._source.end_attempt()
        self._writer.begin_call(self._name, self._id)

    def _close(self) -> Outcome:
        if not self._name:
            return Outcome.NONE
        if not self._is_begun:
            self._begin()
        self._writer.arguments("".join(self._held))
        if not self._has_text:
            self._writer.arguments("{}")
        self._writer.end_call()
        return Outcome.COMPLETE

    def _give_up(self) -> Outcome:
        source = self._source
        is_cut = source.is_ended and source.at >= len(source.text)
        if is_cut and self._name and not self._is_begun and self._writer.may_call(self._name):
            self._begin()
            self._writer.arguments("".join(self._held))
        if not self._is_begun:
            return Outcome.NONE
        return Outcome.CUT if is_cut else Outcome.BROKEN


def call_object(source: TextSource, writer: MessageWriter, shape: CallShape) -> Steps[Outcome]:
    """Read one call that is a JSON object."""
    return _CallObject(source, writer, shape).read()


def rest_of_arguments(source: TextSource, writer: MessageWriter, *ends: str) -> Steps[None]:
    """Arguments that are no JSON are told of as they are, up to the mark that ends the call."""
    if (yield from source.until(markers(*ends), writer.arguments)) is not None:
        writer.end_call()


def call_name(source: TextSource) -> Steps[str]:
    """A function's name, "" where none comes next."""
    return source.run(_NAME, max_chars=MAX_NAME_CHARS)


def json_arguments(
    source: TextSource, writer: MessageWriter, name: str, call_id: str = "", *, ends: tuple[str, ...] = ()
) -> Steps[None]:
    """Tell of a call whose arguments come next, as a JSON value, and read them. `ends` end it even where they
    are none."""
    source.end_attempt()
    writer.begin_call(name, call_id)
    yield from source.space()
    if (yield from json_value(source, writer.arguments)):
        writer.end_call()
    elif not source.is_ended or source.at < len(source.text):
        yield from rest_of_arguments(source, writer, *ends)


class JsonCalls(MarkedFormat):
    """`begin`, then one call or a list of them, then `end`. Where `is_list` calls are always listed.

    `opening` may stand between the mark and the calls; where `must_open`, what has none is no call.
    """

    begin: str
    opening: str = ""
    must_open = False
    end: str = ""
    shape = CallShape()
    is_list = False
    space_begin = ""
    space_end = ""
    """Space around calls, as the template writes it."""

    def __init__(self, thinking: Thinking | None = None) -> None:
        self.call_markers = (self.begin,)
        if thinking is not None:
            self.thinking = thinking
        marks = () if self.thinking is None else (self.thinking.begin, self.thinking.end)
        self.preserved_texts = tuple(
            [text for text in (self.begin, self.end, *marks, *self.silent_texts) if text]
        )

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        if self.opening:
            yield from source.space()
            if (yield from source.expect(self.opening)) is None and self.must_open:
                return False
        yield from source.space()
        is_list = (yield from source.expect("[")) is not None
        yield from source.space()
        outcome = yield from call_object(source, writer, self.shape)
        if outcome is Outcome.NONE:
            return False
        while outcome is Outcome.COMPLETE and not writer.is_complete:
            source.begin_attempt("")
            yield from source.space()
            if is_list and (yield from source.expect(",")) is not None:
                yield from source.space()
            elif is_list or not self.end or (yield from source.next_char()) != "{":
                source.end_attempt()
                break
            outcome = yield from call_object(source, writer, self.shape)
            text = source.end_attempt()
            if outcome is Outcome.NONE:
                writer.content(text)
        if outcome is Outcome.BROKEN:
            yield from rest_of_arguments(source, writer, *((self.end,) if self.end else ()))
        elif outcome is Outcome.COMPLETE and not writer.is_complete:
            if is_list:
                yield from source.expect("]")
            if self.end:
                yield from source.space()
                yield from source.expect(self.end)
        return True

    # -- what may be written ----------------------------------------------------------------------

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        if self.is_list:
            tags = [self.object_tag(tool) for tool in tools.callable_tools]
            begin = f"{self.begin}{self.space_begin}["
            return listed_calls(tools, self.begin, begin, f"]{self.space_end}{self.end}", tags)
        tags = [
            self.object_tag(tool, begin=self.begin + self.space_begin, end=self.space_end + self.end)
            for tool in tools.callable_tools
        ]
        return tagged_calls(tools, tags, trigger=self.begin, separator="\n")

    def object_tag(self, tool: ToolSpec, *, begin: str = "", end: str = "") -> Tag:
        """One call, between texts around it."""
        name, key = json.dumps(tool.name), json.dumps(self.shape.arguments[0])
        opening = f"{begin}{{{json.dumps(self.shape.name)}: {name}, {key}: "
        return Tag(opening, JsonSchema(arguments_schema(tool)), "}" + end)


def _plain(raw: str) -> str:
    """A string's text; a number as it is written."""
    value = json.loads(raw)
    return value if isinstance(value, str) else raw if isinstance(value, int | float) else ""


def _ignore(text: str) -> None:
    """Read, and of no use."""
