"""A text that one policy after the other changes, and what of the first one each change stands for.

Later policies see what earlier ones made of it, and who releases it has to know which of its own characters
became what: a mask of a masked text is one of the original's, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hooks.matching.readings import Readings


@dataclass(frozen=True, slots=True)
class Replacement:
    """`text` in place of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """`text` stands where the original has its characters from `start` to `end`."""

    start: int
    end: int
    text: str
    is_original: bool


class EditedText:
    """`text` is what it is now, `replacements` how it came from the original: in order, apart from each
    other, in places of the original. It is replaced, never changed; that costs time in proportion to the
    changes so far."""

    __slots__ = ("_pieces", "readings", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.readings = Readings(text)
        """Of the text as it is now."""
        self._pieces = [_Piece(0, len(text), text, True)]

    def replaced(self, replacements: Iterable[Replacement]) -> EditedText:
        """The text as it is now with other text in some places, which are in order and do not overlap.
        ValueError where that is not so."""
        rest = _Rest(self._pieces)
        pieces: list[_Piece] = []
        place = 0
        for one in replacements:
            if not place <= one.start <= one.end <= len(self.text):
                raise ValueError("replacements overlap, are out of order or outside of the text")
            pieces += rest.take(one.start - place)
            replaced = list(rest.take(one.end - one.start))
            start = replaced[0].start if replaced else rest.place
            end = replaced[-1].end if replaced else start
            pieces.append(_Piece(start, end, one.text, False))
            place = one.end
        pieces += rest.all()
        edited = EditedText("".join([piece.text for piece in pieces]))
        edited._pieces = pieces
        return edited

    @property
    def replacements(self) -> tuple[Replacement, ...]:
        found: list[Replacement] = []
        is_open = False
        for piece in self._pieces:
            if piece.is_original:
                # Between two changes that stand for nothing in between there may be an empty piece.
                is_open = is_open and not piece.text
                continue
            if is_open:
                last = found.pop()
                found.append(Replacement(last.start, max(last.end, piece.end), last.text + piece.text))
            else:
                found.append(Replacement(piece.start, piece.end, piece.text))
            is_open = True
        return tuple(found)

    def __repr__(self) -> str:
        return f"<EditedText of {len(self.text)} characters in {len(self._pieces)} pieces>"


class _Rest:
    """Pieces from the left, as many characters at a time as are asked for."""

    def __init__(self, pieces: list[_Piece]) -> None:
        self._pieces = iter(pieces)
        self._head: _Piece | None = None
        self.place = 0
        """In the original."""

    def take(self, num_chars: int) -> Iterator[_Piece]:
        while num_chars:
            piece = self._head or next(self._pieces)
            self._head = None
            if not piece.text:
                # It took something away, and goes with what stands before it.
                self.place = piece.end
                yield piece
                continue
            if len(piece.text) > num_chars:
                piece, self._head = _split(piece, num_chars)
            num_chars -= len(piece.text)
            self.place = piece.end
            yield piece

    def all(self) -> Iterator[_Piece]:
        if self._head is not None:
            yield self._head
        yield from self._pieces


def _split(piece: _Piece, place: int) -> tuple[_Piece, _Piece]:
    """What was put in cannot be told apart by places of the original: all of it counts for the left part."""
    middle = piece.start + place if piece.is_original else piece.end
    return (
        _Piece(piece.start, middle, piece.text[:place], piece.is_original),
        _Piece(middle, piece.end, piece.text[place:], piece.is_original),
    )
