"""The same word can be written in a hundred ways that look alike: full width, as a ligature, with characters
of no width between its letters, struck through. A reading is the one form of them all, and knows where each
of its characters stands in the text.

The plain reading: what has no width, and control characters that are no white space, taken out; Unicode's
NFKC; marks that are drawn over a letter and belong to none taken out. The folded one: its case folded, too
(Unicode 15, D144 to D147, section 3.13). Letters of other scripts that look alike stay what they are.

Both take time in proportion to the text. A character and the marks behind it are normalized by themselves,
which gives what normalizing the whole gives: nothing else in Unicode composes (UAX #15, section 9).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import category, is_normalized, normalize

from hooks.matching.spans import Span

# Default_Ignorable_Code_Point and the rest of Cf (Unicode 15), with the controls that are no white space.
_WIDTHLESS = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u0600-\u0605\u06dd\u070f\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000110bd\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Marks for any letter: what NFKC leaves of them was put over one that has no such form.
_LOOSE_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
# What can become one character with what stands before it, beside marks: Hangul's vowels and finals, and
# the half-width forms that NFKC makes marks or those of.
_CONTINUATIONS = "\u1160-\u11ff\uff9e-\uff9f\uffa0-\uffdc\ud7b0-\ud7ff"

_widthless = re.compile(f"[{_WIDTHLESS}]+")
_loose_marks = re.compile(f"[{_LOOSE_MARKS}]+")
# The same for text that is all ASCII, where this is ten times as fast.
_ASCII_WIDTHLESS = dict.fromkeys((*range(9), *range(14, 28), 127))
_continuation = re.compile(f"[{_CONTINUATIONS}]")
_escape = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])"
)
_odd = re.compile(f"[{_WIDTHLESS}{_LOOSE_MARKS}]")


def plain(text: str) -> str:
    """The plain reading, without the way back."""
    if text.isascii():
        return text.translate(_ASCII_WIDTHLESS)
    return _loose_marks.sub("", normalize("NFKC", _widthless.sub("", text)))


def folded(text: str) -> str:
    """The folded reading, with no white space around it, and each run of it inside one space: to be compared,
    or searched with `in`."""
    letters = plain(text).casefold()
    return " ".join((letters if letters.isascii() else _loose_marks.sub("", letters)).split())


def unescaped(text: str) -> str:
    r"""JSON, or a part of some, with what is escaped in it (`\u0062`) as what it stands for."""
    return text if "\\" not in text else _escape.sub(lambda escape: _escaped(escape.group()), text)


def with_escapes_read(text: str) -> str:
    r"""Text that may be JSON somewhere: where anything is escaped in it, it follows once more with that read.
    Both, since a path (`C:\bombs`) has escapes only for who takes it for JSON."""
    if "\\" not in text:
        return text
    read = unescaped(text)
    return text if read == text else f"{text}\n{read}"


@dataclass(frozen=True, slots=True, repr=False)
class Reading:
    """`text` as it is read. `starts` and `ends` say for each of its characters where it stands in the text
    that it was made of; None where each stands at its own place."""

    text: str
    starts: list[int] | None = None
    ends: list[int] | None = None

    def source(self, start: int, end: int) -> Span:
        """Where `text[start:end]` (not empty) stands, with the characters of no width inside of it."""
        if self.starts is None or self.ends is None:
            return Span(start, end)
        return Span(self.starts[start], self.ends[end - 1])

    def folded(self) -> Reading:
        """The same without its case. White space stays as it is."""
        once = self.text.casefold()
        if len(once) == len(self.text) and not _loose_marks.search(once):
            return Reading(once, self.starts, self.ends)
        letters: list[str] = []
        places: list[int] = []
        for place, character in enumerate(self.text):
            for letter in _fold_character(character):
                letters.append(letter)
                places.append(place)
        starts = places if self.starts is None else [self.starts[place] for place in places]
        ends = (
            [place + 1 for place in places] if self.ends is None else [self.ends[place] for place in places]
        )
        return Reading("".join(letters), starts, ends)


class Readings:
    """One text in its readings, each made once, when somebody first looks for something in it: many policies
    look in the same one."""

    __slots__ = ("_folded", "_plain", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._plain: dict[bool, Reading] = {}
        self._folded: dict[bool, Reading] = {}

    def plain(self, *, is_json: bool = False) -> Reading:
        found = self._plain.get(is_json)
        if found is None:
            found = self._plain[is_json] = reading_of(self.text, is_json=is_json)
        return found

    def folded(self, *, is_json: bool = False) -> Reading:
        found = self._folded.get(is_json)
        if found is None:
            found = self._folded[is_json] = self.plain(is_json=is_json).folded()
        return found

    def __repr__(self) -> str:
        return f"<Readings of {len(self.text)} characters>"


def reading_of(text: str, *, is_json: bool = False) -> Reading:
    r"""The plain reading. `is_json`: `text` is JSON, or a part of some: what is escaped in it (`\u0062`) is
    read as what it stands for."""
    has_escapes = is_json and "\\" in text
    if not has_escapes and _is_plain(text):
        return Reading(text)
    letters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end, piece in _pieces(_escaped_characters(text) if has_escapes else _characters(text)):
        for letter in plain(piece):
            letters.append(letter)
            starts.append(start)
            ends.append(end)
    return Reading("".join(letters), starts, ends)


def _is_plain(text: str) -> bool:
    if text.isascii():
        return len(text.translate(_ASCII_WIDTHLESS)) == len(text)
    return not _odd.search(text) and is_normalized("NFKC", text)


_Piece = tuple[int, int, str]


def _characters(text: str) -> Iterator[_Piece]:
    for place, character in enumerate(text):
        yield place, place + 1, character


def _escaped_characters(text: str) -> Iterator[_Piece]:
    """Each character, or escape for one, with where it stands."""
    place = 0
    for escape in _escape.finditer(text):
        start, end = escape.span()
        for at in range(place, start):
            yield at, at + 1, text[at]
        yield start, end, _escaped(escape.group())
        place = end
    for at in range(place, len(text)):
        yield at, at + 1, text[at]


def _pieces(characters: Iterator[_Piece]) -> Iterator[_Piece]:
    """Characters put together that have to be normalized together."""
    begin = finish = 0
    piece = ""
    for start, end, character in characters:
        if piece and not _continues(character):
            yield begin, finish, piece
            piece = ""
        if not piece:
            begin = start
        piece += character
        finish = end
    if piece:
        yield begin, finish, piece


def _escaped(escape: str) -> str:
    character: str = json.loads(f'"{escape}"')
    return character


@lru_cache(maxsize=4096)
def _continues(character: str) -> bool:
    return (
        category(character).startswith("M")
        or _continuation.match(character) is not None
        or _widthless.match(character) is not None
    )


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    return _loose_marks.sub("", character.casefold())
