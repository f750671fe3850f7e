"""How many characters of a text a reader sees: what held-back text is counted in.

A word of five letters may be written with a thousand characters of no width between them, with a mark behind
each letter, or as a phrase with a page of white space in it. If all of these counted, such a word would be
longer than any window. So only what cannot disappear when text is folded for a comparison (NFKC, marks and
default-ignorable characters taken out, runs of white space made one) counts, and each of it once.
"""

from __future__ import annotations

from functools import lru_cache
from unicodedata import category

# Marks, format and control characters, and those that are nobody's; lone surrogates.
_UNSEEN_CATEGORIES = frozenset({"Mn", "Mc", "Me", "Cf", "Cc", "Cn", "Cs"})
# Hangul's parts, also as compatibility and half-width forms, which become one syllable with those before
# them, and the half-width marks of kana (UAX #15; Unicode 15, DerivedNormalizationProps).
_JOINING = (
    (0x1100, 0x11FF),
    (0x3131, 0x318E),
    (0xA960, 0xA97F),
    (0xD7B0, 0xD7FF),
    (0xFF9E, 0xFFDC),
)


def read_size(text: str, *, before: str = "") -> int:
    """A lower bound of the folded text's length. `before` is the character that it comes behind."""
    if text.isascii() and text.isprintable() and "  " not in text:
        # The usual case: words of a token, with a space in front of them.
        return len(text) - (text[:1] == " " and _hides_space(before[-1:]))
    return sum(
        [_size(one, previous) for one, previous in zip(text, (before[-1:] or "-") + text, strict=False)]
    )


def place_before(text: str, size: int) -> tuple[int, int]:
    """The last place in `text` behind which at least `size` of it is seen, or 0; and how much that is."""
    if not size:
        return len(text), 0
    seen = 0
    for place in range(len(text) - 1, -1, -1):
        seen += _size(text[place], text[place - 1] if place else "")
        if seen >= size:
            return place, seen
    return 0, seen


def _size(character: str, before: str) -> int:
    if character.isspace():
        return 0 if _hides_space(before) else 1
    return _is_seen(character)


def _hides_space(before: str) -> bool:
    """Behind this character white space may be no more than what stands there already: of two spaces with
    something between that nobody sees, one is left."""
    return before.isspace() or (before != "" and not _is_seen(before))


@lru_cache(maxsize=4096)
def _is_seen(character: str) -> int:
    code = ord(character)
    return int(
        category(character) not in _UNSEEN_CATEGORIES
        and not any(first <= code <= last for first, last in _JOINING)
    )
