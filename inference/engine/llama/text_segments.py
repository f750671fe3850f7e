"""Long text in pieces that a tokenizer can take.

llama.cpp splits text with std::regex for many families of models, and std::regex recurses for every
character of a match: 32 KiB without a space overflow an 8 MiB stack and end the process. And each
special token found in a text costs time in proportion to those found before it: half a megabyte of
`<b>` takes minutes. So long text is cut where it does not change the tokens. Where there is no such
place and there must be one, it is cut anyway, and the tokens there may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# 8 MiB hold about 25,000 characters of std::regex, and a thread may have a quarter of that stack.
MAX_WORD_SEGMENT_CHARS = 4096
# No stack is at risk here, only time: a piece may hold a few thousand special tokens.
MAX_MARKER_SEGMENT_CHARS = 16_384


class WordSegments:
    """Cuts for vocabularies that split text into words first (byte-pair ones): behind a single line
    break, or in front of the last space before a word, where all of them split anyway.

    `special_texts` are never cut: half of one would not be recognised.
    """

    def __init__(self, special_texts: Iterable[str], *, max_chars: int = MAX_WORD_SEGMENT_CHARS) -> None:
        self._max_chars = max_chars
        self._special_texts = [text for text in special_texts if 1 < len(text) < max_chars // 4]
        # Only these can reach over a cut at a space.
        self._spaced_texts = [text for text in self._special_texts if any(map(str.isspace, text))]

    def cut(self, text: str) -> list[str]:
        """`text` in pieces of at most `max_chars` characters that join to the same text."""
        pieces = []
        start = 0
        while len(text) - start > self._max_chars:
            end = self._end_of_piece(text, start)
            pieces.append(text[start:end])
            start = end
        pieces.append(text[start:])
        return pieces

    def _end_of_piece(self, text: str, start: int) -> int:
        """The last good place in the second half of the piece, or its full length."""
        half, limit = start + self._max_chars // 2, start + self._max_chars
        place = limit
        while (place := text.rfind("\n", half, place - 1) + 1) > half:
            # One of several line breaks may belong to the word before or after, by family.
            is_alone = not text[place - 2].isspace() and not text[place].isspace()
            if is_alone and not self._is_inside_special(text, place):
                return place
        place = limit
        while (place := text.rfind(" ", half, place)) > half:
            if not text[place + 1].isspace() and not self._is_inside_special(text, place):
                return place
        return self._hard_end(text, start, limit)

    def _hard_end(self, text: str, start: int, limit: int) -> int:
        """No good place: cut at the limit, or in front of a special text that lies there."""
        for special in self._special_texts:
            found = text.find(special, limit - len(special) + 1, limit + len(special) - 1)
            if start < found < limit:
                return found
        return limit

    def _is_inside_special(self, text: str, place: int) -> bool:
        return any(
            text.find(special, place - len(special) + 1, place + len(special) - 1) >= 0
            for special in self._spaced_texts
        )


def cut_behind_markers(
    text: str, markers: Sequence[str], *, max_chars: int = MAX_MARKER_SEGMENT_CHARS
) -> list[str]:
    """Cuts for vocabularies that merge over the whole text (SentencePiece): right behind a special
    token, where such a tokenizer begins anew. Pieces without one may be longer than `max_chars`."""
    pieces = []
    start, limit = 0, max_chars
    while limit < len(text):
        low = limit - max_chars // 2
        ends = [found + len(marker) for marker in markers if (found := text.rfind(marker, low, limit)) >= 0]
        # Spaces behind a marker of spaces could have been one longer marker.
        ends = [end for end in ends if not (text[end - 1].isspace() and text[end : end + 1].isspace())]
        if ends:
            pieces.append(text[start : max(ends)])
            start = max(ends)
            limit = start + max_chars
        else:
            limit += max_chars // 2
    pieces.append(text[start:])
    return pieces


def cut_inside(text: str, markers: Iterable[str]) -> list[str]:
    """`text` in pieces none of which holds one of `markers`: cut behind the first character of each."""
    pieces = [text]
    for marker in markers:
        cut: list[str] = []
        for piece in pieces:
            parts = piece.split(marker)
            for index, part in enumerate(parts):
                head = marker[1:] if index else ""
                tail = marker[:1] if index < len(parts) - 1 else ""
                cut.append(head + part + tail)
        pieces = cut
    return pieces
