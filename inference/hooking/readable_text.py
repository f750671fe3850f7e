"""Text of policies and of those whom they ask, as everybody here can read it."""

from __future__ import annotations


def readable(text: str) -> str:
    """Halves of surrogate pairs, which JSON can hold and UTF-8 cannot, are replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
