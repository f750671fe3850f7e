"""One JSON value read as it comes, so that arguments can be sent on before they are whole.

A parser needs the whole text, and to run one again for each token costs the square of it. This follows
the grammar (RFC 8259) one piece at a time and says where a value ends or stops being one.
"""

from __future__ import annotations

import json
import re
from typing import Final

from inference.parsing.formats.text_source import Steps, Take, TextSource

_SPACE: Final = re.compile(r"[ \t\r\n]+")
_STRING_TEXT: Final = re.compile(r'[^"\\\x00-\x1f]+')
_CONTROLS: Final = re.compile(r"[\x00-\x1f]+")
_NUMBER_TEXT: Final = re.compile(r"[-+.0-9eE]+")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD_TEXT: Final = re.compile(r"[a-z]+")
_WORDS: Final = frozenset({"true", "false", "null"})
_MAX_NUMBER_CHARS: Final = 400
MAX_DEPTH: Final = 512

# What may come next.
_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _NEXT, _STRING, _ESCAPE, _HEX, _NUMBER_PART, _WORD_PART = (
    range(11)
)


class JsonScanner:
    """Of one value. Line breaks and other control characters inside strings, which JSON has not but models
    write, are escaped: what comes out is JSON."""

    __slots__ = ("_is_key", "_part", "_stack", "_state", "is_complete", "is_invalid")

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._state = _VALUE
        self._is_key = False
        self._part = ""
        self.is_complete = False
        self.is_invalid = False

    def scan(self, text: str, at: int, pieces: list[str]) -> int:
        """Read `text` from `at`; where it stopped: at the end of the text, behind the value, or at what
        cannot belong to one. What was read is added to `pieces`."""
        size = len(text)
        while at < size and not (self.is_complete or self.is_invalid):
            begin = at
            state = self._state
            if state == _STRING:
                at = self._scan_string(text, at, pieces)
                continue
            if state == _ESCAPE:
                at = self._scan_escape(text, at)
            elif state == _HEX:
                at = self._scan_hex(text, at)
            elif state == _NUMBER_PART:
                at = self._scan_part(text, at, _NUMBER_TEXT)
            elif state == _WORD_PART:
                at = self._scan_part(text, at, _WORD_TEXT)
            else:
                space = _SPACE.match(text, at)
                at = space.end() if space is not None else self._scan_mark(text[at], at)
            if at > begin:
                pieces.append(text[begin:at])
        return at

    def finish(self) -> None:
        """There is no more text: a number at the top is complete."""
        if not (self.is_complete or self.is_invalid) and self._state in {_NUMBER_PART, _WORD_PART}:
            self._end_part()

    def _scan_string(self, text: str, at: int, pieces: list[str]) -> int:
        begin = at
        plain = _STRING_TEXT.match(text, at)
        if plain is not None:
            at = plain.end()
        if at < len(text):
            char = text[at]
            if char == '"':
                at += 1
                self._end_string()
            elif char == "\\":
                at += 1
                self._state = _ESCAPE
            else:
                controls = _CONTROLS.match(text, at)
                assert controls is not None
                pieces.append(text[begin:at] + json.dumps(controls[0])[1:-1])
                return controls.end()
        pieces.append(text[begin:at])
        return at

    def _scan_escape(self, text: str, at: int) -> int:
        char = text[at]
        if char == "u":
            self._state, self._part = _HEX, ""
        elif char in '"\\/bfnrt':
            self._state = _STRING
        else:
            self.is_invalid = True
            return at
        return at + 1

    def _scan_hex(self, text: str, at: int) -> int:
        if text[at] not in "0123456789abcdefABCDEF":
            self.is_invalid = True
            return at
        self._part += text[at]
        if len(self._part) == 4:
            self._state = _STRING
        return at + 1

    def _scan_part(self, text: str, at: int, pattern: re.Pattern[str]) -> int:
        match = pattern.match(text, at)
        if match is None:
            self._end_part()
            return at
        self._part += match[0]
        if len(self._part) > _MAX_NUMBER_CHARS:
            self.is_invalid = True
            return at
        return match.end()

    def _end_part(self) -> None:
        """A number or a word ends where something else comes."""
        known = _NUMBER.fullmatch(self._part) if self._state == _NUMBER_PART else self._part in _WORDS
        if known:
            self._end_value()
        else:
            self.is_invalid = True

    def _scan_mark(self, char: str, at: int) -> int:
        state = self._state
        if state == _COLON:
            if char == ":":
                self._state = _VALUE
                return at + 1
        elif state == _NEXT:
            if char == ",":
                self._state = _KEY if self._stack[-1] == "{" else _VALUE
                return at + 1
            if char == ("}" if self._stack[-1] == "{" else "]"):
                return self._close(at)
        elif char == '"':
            self._is_key = state in {_FIRST_KEY, _KEY}
            self._state = _STRING
            return at + 1
        elif (state == _FIRST_KEY and char == "}") or (state == _FIRST_ITEM and char == "]"):
            return self._close(at)
        elif state in {_VALUE, _FIRST_ITEM}:
            if char in "{[" and len(self._stack) < MAX_DEPTH:
                self._stack.append(char)
                self._state = _FIRST_KEY if char == "{" else _FIRST_ITEM
                return at + 1
            if char in "-0123456789":
                self._state, self._part = _NUMBER_PART, ""
                return at
            if char in "tfn":
                self._state, self._part = _WORD_PART, ""
                return at
        self.is_invalid = True
        return at

    def _close(self, at: int) -> int:
        self._stack.pop()
        self._end_value()
        return at + 1

    def _end_string(self) -> None:
        if self._is_key:
            self._is_key = False
            self._state = _COLON
        else:
            self._end_value()

    def _end_value(self) -> None:
        if self._stack:
            self._state = _NEXT
        else:
            self.is_complete = True


def json_value(source: TextSource, take: Take) -> Steps[bool]:
    """Read one value, given to `take` as it comes. False where it was none, or ended before its end: then
    what could not belong to it is still unread."""
    scanner = JsonScanner()
    pieces: list[str] = []
    while True:
        end = scanner.scan(source.text, source.at, pieces)
        if end > source.at:
            source.take(end - source.at)
        if pieces:
            take("".join(pieces))
            pieces.clear()
        if scanner.is_complete:
            return True
        if scanner.is_invalid:
            return False
        if not (yield from source.more()):
            scanner.finish()
            return scanner.is_complete


def json_string(source: TextSource, *, max_chars: int) -> Steps[str | None]:
    """Read a string, and what it says; None where the next is none, or is longer than that (then the rest
    of it has been read as well)."""
    if (yield from source.next_char()) != '"':
        return None
    pieces: list[str] = []
    if not (yield from json_value(source, pieces.append)):
        return None
    raw = "".join(pieces)
    return str(json.loads(raw)) if len(raw) <= max_chars else None


_ESCAPES: Final = re.compile(r'\\(?:u[0-9a-fA-F]{4}|[^u])|[^\\"]+|"')
_FIRST_HALF: Final = re.compile(r"\\u[dD][89abAB]")


class StringDecoder:
    """The text that a JSON string stands for, while the string is being read: `push` takes what
    `json_value` gives. Halves of characters without their other half become U+FFFD."""

    def __init__(self) -> None:
        self._held = ""
        self._is_begun = False

    def push(self, raw: str) -> str:
        if not self._is_begun:
            self._is_begun = True
            raw = raw[1:]
        raw = self._held + raw
        at = end = 0
        while (match := _ESCAPES.match(raw, at)) is not None and match[0] != '"':
            at = match.end()
            is_half = _FIRST_HALF.match(match[0]) is not None
            if not is_half or (at < len(raw) and not "\\u".startswith(raw[at : at + 2])):
                end = at
        if match is not None:
            end = at
        self._held = "" if match is not None else raw[end:]
        text = str(json.loads(f'"{raw[:end]}"')) if end else ""
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
