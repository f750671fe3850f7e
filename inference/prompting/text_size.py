"""How long a text is where it counts: in bytes, which bound its tokens."""

from __future__ import annotations


def text_bytes(text: str) -> int:
    """Its length in UTF-8; ASCII, which Python knows at once, is not encoded for it."""
    return len(text) if text.isascii() else len(text.encode())
