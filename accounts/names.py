"""Names that people give to keys and teams: whatever reads well, nothing that breaks what shows or stores it.

Postgres refuses NUL, UTF-8 has no lone surrogates, a line break forges a log line, and a
bidirectional override makes a list read as something else. Each is refused here with a sentence,
before it is an error of the database.
"""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError

MAX_NAME_LENGTH = 100

# Explicit directional formatting characters of Unicode's bidirectional algorithm (UAX #9, 2.1 to 2.4, 2.6).
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_REFUSED_CATEGORIES = {
    "Cc": "a control character",
    "Cs": "half of a surrogate pair",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def validate_name(name: str, *, max_length: int = MAX_NAME_LENGTH) -> None:
    """Raises ValidationError (codes: blank, too_long, bad_character) with a sentence for people.

    The character is named by its code point, since showing it is what must not be done.
    """
    if not name.strip():
        raise ValidationError("A name is needed.", code="blank")
    if len(name) > max_length:
        raise ValidationError(f"A name has at most {max_length} characters.", code="too_long")
    for character in name:
        what = _REFUSED_CATEGORIES.get(unicodedata.category(character))
        if what is None and character in _BIDI_CONTROLS:
            what = "a text direction control"
        if what is not None:
            raise ValidationError(
                f"A name must not contain {what} (U+{ord(character):04X}).", code="bad_character"
            )
