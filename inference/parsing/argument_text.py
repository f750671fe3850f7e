r"""A call's arguments as they are read: JSON text whose escapes are resolved, with the way back.

`{"q":"\u0062lock"}` asks for "block", whatever it looks like. Who looks for words must see what the function
will get, and what is put in another's place has to leave JSON behind. Arguments come in pieces, cut anywhere.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from typing import NamedTuple

_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = frozenset("0123456789abcdefABCDEF")
_SCALAR = frozenset("0123456789+-.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_special = re.compile(r'["\\]')
MAX_ESCAPE_CHARS = 12
"""Of a character outside of the basic plane."""


class CharKind(IntEnum):
    """STRING: inside of a string. SCALAR: of a number, of true, false or null. MARKUP: all else."""

    STRING = 0
    SCALAR = 1
    MARKUP = 2


class ReadCharacter(NamedTuple):
    """`text` is one character, `written` how it stands in the JSON text."""

    text: str
    written: str
    kind: CharKind


class _Plain(dict[str, ReadCharacter]):
    """Characters of one kind that are written as they are; those of ASCII are made once."""

    def __init__(self, kind: CharKind) -> None:
        super().__init__({chr(code): ReadCharacter(chr(code), chr(code), kind) for code in range(128)})
        self._kind = kind

    def __missing__(self, character: str) -> ReadCharacter:
        return ReadCharacter(character, character, self._kind)


_STRING, _MARKUP, _SCALARS = _Plain(CharKind.STRING), _Plain(CharKind.MARKUP), _Plain(CharKind.SCALAR)


class ArgumentReader:
    """Reads one call's arguments, once and in order: `feed` gives what is whole, `finish` what the end of the
    text leaves unfinished. What is no JSON is read as far as that goes. `is_string`: the text begins inside
    of a string."""

    def __init__(self, *, is_string: bool = False) -> None:
        self._is_string = is_string
        self._waiting = ""
        """The beginning of an escape."""

    def feed(self, text: str) -> list[ReadCharacter]:
        text = self._waiting + text
        self._waiting = ""
        found: list[ReadCharacter] = []
        place = 0
        while place < len(text):
            character = text[place]
            if not self._is_string:
                self._is_string = character == '"'
                found.append((_SCALARS if character in _SCALAR else _MARKUP)[character])
                place += 1
            elif character == '"':
                self._is_string = False
                found.append(_MARKUP[character])
                place += 1
            elif character == "\\":
                escape = _read_escape(text[place : place + MAX_ESCAPE_CHARS])
                if escape is None:
                    self._waiting = text[place:]
                    break
                size, meaning = escape
                found.append(ReadCharacter(meaning, text[place : place + size], CharKind.STRING))
                place += size
            else:
                # The usual case: up to what is special, all is as it is.
                special = _special.search(text, place)
                end = len(text) if special is None else special.start()
                found += [_STRING[one] for one in text[place:end]]
                place = end
        return found

    def finish(self) -> list[ReadCharacter]:
        waiting, self._waiting = self._waiting, ""
        return [_STRING[character] for character in waiting]


def _read_escape(text: str) -> tuple[int, str] | None:
    """How long the escape is that `text` begins with, and what it stands for; None while it may go on."""
    kind = text[1:2]
    if not kind:
        return None
    if kind != "u":
        # What is no escape stands for itself.
        return 2, _SIMPLE.get(kind, kind)
    digits = text[2:6]
    if not _HEX.issuperset(digits):
        return 2, "u"
    if len(digits) < 4:
        return None
    code = int(digits, 16)
    if 0xD800 <= code < 0xDC00:
        low = text[6:12]
        if _may_be_low_surrogate(low):
            return (12, json.loads(f'"{text}"')) if len(low) == 6 else None
    return 6, "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def _may_be_low_surrogate(text: str) -> bool:
    return (
        "\\u".startswith(text[:2])
        and "dD".find(text[2:3]) >= 0
        and text[3:4] in ("", *"cdefCDEF")
        and _HEX.issuperset(text[4:])
    )
