"""Whole words and phrases in text that has been folded (hooks/matching/readings.py).

A word is found where it is no part of a longer one: "ass" is not in "class". Scripts that put no space
between words (Chinese, Japanese, Thai and the like) have no such places, and there it is found anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hooks.matching.readings import folded
from hooks.matching.spans import Span

# Thai to Tibetan, Myanmar, Khmer, kana, ideographs and their extensions.
_unspaced = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


def needle_of(word: str) -> str:
    """What is searched for. Empty where nothing of the word can be seen."""
    return folded(word)


def has_word(text: str, word: str) -> bool:
    """Whether `text`, which is folded, has `word`, which need not be."""
    needle = needle_of(word)
    return bool(needle) and has_needle(text, needle)


def has_needle(text: str, needle: str) -> bool:
    """The same of both folded, and not empty."""
    return any(_is_whole(text, span) for span in _letter_spans(text, needle))


def word_spans(text: str, needle: str) -> Iterator[Span]:
    """Where `needle` stands in `text`, both folded; any run of white space is as good as one space."""
    found = _phrase_spans(text, needle) if " " in needle else _letter_spans(text, needle)
    return (span for span in found if _is_whole(text, span))


def _letter_spans(text: str, needle: str) -> Iterator[Span]:
    place = text.find(needle)
    while place >= 0:
        yield Span(place, place + len(needle))
        place = text.find(needle, place + 1)


def _phrase_spans(text: str, needle: str) -> Iterator[Span]:
    phrase = re.compile(r"\s+".join([re.escape(part) for part in needle.split(" ")]))
    match = phrase.search(text)
    while match is not None:
        yield Span(*match.span())
        match = phrase.search(text, match.start() + 1)


def _is_whole(text: str, span: Span) -> bool:
    return not (_is_inside(text, span.start) or _is_inside(text, span.end))


def _is_inside(text: str, place: int) -> bool:
    """Whether a word goes on at this place."""
    if not 0 < place < len(text):
        return False
    before, behind = text[place - 1], text[place]
    return before.isalnum() and behind.isalnum() and not (_unspaced.match(before) or _unspaced.match(behind))
