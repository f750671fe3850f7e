"""A stretch of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """From `start` up to, and without, `end`: characters of the text that was searched."""

    start: int
    end: int


def joined(spans: Iterable[Span]) -> list[Span]:
    """In order, those that overlap made one. Those that only touch stay two."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start < result[-1].end:
            result[-1] = Span(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result
