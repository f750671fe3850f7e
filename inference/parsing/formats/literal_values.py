"""Values in two notations that are not quite JSON, turned into JSON while they come.

LFM2 writes calls as Python does (`f(a=1, b="x", c=[True, None])`), Gemma 4 as objects without quotes around
keys and with a token around strings (`{a:1,b:<|"|>x<|"|>}`).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Final

from inference.parsing.formats.text_source import Markers, Steps, Take, TextSource, markers

_MAX_DEPTH: Final = 64
_MAX_WORD_CHARS: Final = 400
_WORD: Final = re.compile(r"[-+.\w]+")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_PYTHON_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: Final = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", "0": "\0", "/": "/"}
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_HEX_SIZES: Final = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class Notation:
    """`quotes` begin and end strings, with escapes in them or not; keys of objects are strings or words."""

    quotes: tuple[str, ...]
    has_escapes: bool
    has_bare_keys: bool


PYTHON: Final = Notation(quotes=('"', "'"), has_escapes=True, has_bare_keys=False)
GEMMA: Final = Notation(quotes=('<|"|>',), has_escapes=False, has_bare_keys=True)
_BARE_KEY: Final = re.compile(r"[^:{}\[\],<\n]+")


def literal(source: TextSource, take: Take, notation: Notation, *, depth: int = 0) -> Steps[bool]:
    """Read one value; its JSON goes to `take`. False where it is none, or the text ended in it."""
    yield from source.space()
    if depth > _MAX_DEPTH:
        return False
    quote = yield from source.expect(*notation.quotes)
    if quote is not None:
        return (yield from _string(source, take, quote, notation))
    opening = yield from source.expect("{", "[")
    if opening is not None:
        take(opening)
        return (yield from _items(source, take, notation, opening, depth + 1))
    word = yield from source.run(_WORD, max_chars=_MAX_WORD_CHARS)
    value = _WORDS.get(word) or _number(word)
    take(word if value is None else value)
    return value is not None


def literal_object(source: TextSource, take: Take, notation: Notation) -> Steps[bool]:
    """`literal`, of which nothing but an object will do."""
    yield from source.space()
    if (yield from source.expect("{")) is None:
        return False
    take("{")
    return (yield from _items(source, take, notation, "{", 1))


def _items(source: TextSource, take: Take, notation: Notation, opening: str, depth: int) -> Steps[bool]:
    closing = "}" if opening == "{" else "]"
    is_first = True
    while True:
        yield from source.space()
        if (yield from source.expect(closing)) is not None:
            take(closing)
            return True
        if not is_first:
            if (yield from source.expect(",")) is None:
                return False
            yield from source.space()
            if (yield from source.expect(closing)) is not None:
                take(closing)
                return True
            take(", ")
        is_first = False
        if opening == "{" and not (yield from _key(source, take, notation)):
            return False
        if not (yield from literal(source, take, notation, depth=depth)):
            return False


def _key(source: TextSource, take: Take, notation: Notation) -> Steps[bool]:
    quote = yield from source.expect(*notation.quotes)
    if quote is not None:
        if not (yield from _string(source, take, quote, notation)):
            return False
    else:
        key = ""
        if notation.has_bare_keys:
            key = yield from source.run(_BARE_KEY, max_chars=_MAX_WORD_CHARS)
        if not key:
            return False
        take(json.dumps(key.strip(), ensure_ascii=False))
    yield from source.space()
    if (yield from source.expect(":")) is None:
        return False
    take(": ")
    return True


def _string(source: TextSource, take: Take, quote: str, notation: Notation) -> Steps[bool]:
    take('"')
    ends: Markers = markers(quote, "\\") if notation.has_escapes else markers(quote)

    def take_text(text: str) -> None:
        take(_escaped(text))

    while True:
        mark = yield from source.until(ends, take_text)
        if mark == "\\":
            take_text((yield from _escape(source)))
        elif mark is None:
            return False
        else:
            take('"')
            return True


def _escape(source: TextSource) -> Steps[str]:
    """What stands behind a backslash; where that is no escape, both are text."""
    char = yield from source.next_char()
    if not char:
        return "\\"
    source.take(1)
    size = _HEX_SIZES.get(char)
    if size is None:
        return _ESCAPES.get(char, char if char in "\\\"'" else "\\" + char)
    digits = yield from source.run(_HEX, max_chars=size)
    code = int(digits, 16) if len(digits) == size else -1
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return f"\\{char}{digits}" if len(digits) < size else "\ufffd"
    return chr(code)


def _number(word: str) -> str | None:
    """As JSON has it; Python allows more."""
    if _NUMBER.fullmatch(word):
        return word
    if not _PYTHON_NUMBER.fullmatch(word):
        return None
    value = float(word)
    return json.dumps(value) if math.isfinite(value) else None


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
