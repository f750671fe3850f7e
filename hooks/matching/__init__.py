"""Finding words, patterns and personal numbers in text, in whatever form somebody wrote them.

readings  text as it is read: one form of what looks alike, with the way back to where it stands
words     whole words and phrases      personal  e-mail addresses and card numbers
masks     all of them together, and what stands in their place
"""

from hooks.matching.masks import MAX_MASKED_CHARS, Mask, MaskFailed, mask_compiled
from hooks.matching.readings import Reading, Readings, folded, reading_of, unescaped, with_escapes_read
from hooks.matching.spans import Span
from hooks.matching.words import has_needle, has_word, needle_of

__all__ = [
    "MAX_MASKED_CHARS",
    "Mask",
    "MaskFailed",
    "Reading",
    "Readings",
    "Span",
    "folded",
    "has_needle",
    "has_word",
    "mask_compiled",
    "needle_of",
    "reading_of",
    "unescaped",
    "with_escapes_read",
]
