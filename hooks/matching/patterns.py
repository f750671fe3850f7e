"""Patterns that administrators write, in RE2: linear in the text, whatever both are."""

from __future__ import annotations

from typing import Any

import re2


def pattern_compiled(pattern: str, *, max_memory_bytes: int) -> Any:
    """The pattern and its automaton stay within so much; past it, RE2 says so instead of growing. Raises
    re2.error (an Exception) for what is no pattern, or is too large."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_memory_bytes
    return re2.compile(pattern, options)


def searchable(text: str) -> str:
    """As RE2 takes it, which reads UTF-8: half of a surrogate pair is one character, and stays one."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
