"""What is put in the place of a part of a call's arguments, so that they are JSON afterwards.

Somebody finds a word, or a number, or something that reaches over a quotation mark, and wants something else
there. Inside of a string that is what is put there, with escapes; a number and the like become a string;
quotation marks, braces and commas stay. Of a number whose beginning is out already, only the digits change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference.parsing.argument_text import CharKind, ReadCharacter


@dataclass(frozen=True, slots=True)
class Change:
    """`text`, as it is to be written, in place of the characters from `start` to `end`. `is_in_string`: it
    stands inside of a JSON string."""

    start: int
    end: int
    text: str
    is_in_string: bool = False

    @property
    def growth(self) -> int:
        """How many characters there are more afterwards."""
        return len(self.text) - (self.end - self.start)


def argument_changes(
    characters: Sequence[ReadCharacter], wanted: Sequence[Change], *, is_whole: bool, is_in_scalar: bool
) -> Iterator[Change]:
    """`characters` are what is there of a call's arguments, `wanted` in order and apart. `is_whole`: they are
    all of the arguments; in place of all of them anything may be put that is JSON. `is_in_scalar`: they begin
    in the middle of a number, or of true, false or null."""
    done = 0
    for change in wanted:
        if is_whole and change.start == 0 and change.end == len(characters) and _is_json(change.text):
            yield change
            return
        text = json.dumps(change.text, ensure_ascii=False)
        place = max(change.start, done)
        while place < change.end:
            kind = characters[place].kind
            first, behind = _stretch(characters, place, change.end)
            end = min(behind, change.end)
            if kind is CharKind.STRING:
                yield Change(place, end, text[1:-1], is_in_string=True)
            elif kind is CharKind.SCALAR and first == 0 and is_in_scalar:
                yield Change(place, end, _other_digits(characters[place:end]))
            elif kind is CharKind.SCALAR:
                end = behind
                yield Change(first, end, text)
            done = place = end


def _stretch(characters: Sequence[ReadCharacter], place: int, end: int) -> tuple[int, int]:
    """From where to where characters are of the same kind: of a number all, of others up to `end`."""
    kind = characters[place].kind
    first, behind = place, place + 1
    if kind is CharKind.SCALAR:
        end = len(characters)
        while first > 0 and characters[first - 1].kind is kind:
            first -= 1
    while behind < end and characters[behind].kind is kind:
        behind += 1
    return first, behind


def _other_digits(characters: Sequence[ReadCharacter]) -> str:
    """Ones are right at any place of a number."""
    return "".join(["1" if one.text.isdigit() else one.text for one in characters])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
