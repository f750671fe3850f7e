"""Ids of rows as they stand in forms and addresses."""

from __future__ import annotations

# As many digits as an id in the database may have.
MAX_ID_DIGITS = 18


def row_id(text: str) -> int | None:
    """The id that is written there, in ASCII digits; None where there is none."""
    is_id = text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS
    return int(text) if is_id else None
