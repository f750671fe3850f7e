"""What a MaskText looks for, compiled once, and what comes of a text with it.

Words, addresses and numbers are found in whatever form they are written; patterns (RE2) see the plain
reading, so that full width and characters of no width hide nothing from them, but case is as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from hooks.contracts.actions import MaskKind, MaskText
from hooks.matching.patterns import pattern_compiled, searchable
from hooks.matching.personal import card_spans, email_spans
from hooks.matching.readings import Readings
from hooks.matching.spans import Span, joined
from hooks.matching.words import needle_of, word_spans

MAX_MATCHES = 10_000
MAX_MASKED_CHARS = 1 << 20
# More than what is saved may have (hooks/action_form): what was saved always compiles.
MAX_PATTERN_MEMORY_BYTES = 8 << 20

_SPANS_OF = {MaskKind.EMAIL: email_spans, MaskKind.CARD_NUMBER: card_spans}


class MaskFailed(Exception):
    """More than MAX_MATCHES, or more text than MAX_MASKED_CHARS: who asked has to do without, since all of it
    takes its time. `reason` is for the record."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mask:
    """What is looked for in a text, and what is put in its place. Made by `mask_compiled`."""

    kinds: tuple[MaskKind, ...]
    needles: tuple[str, ...]
    patterns: tuple[Any, ...]
    replacement: str

    def spans(self, text: str, *, is_json: bool = False) -> list[Span]:
        """As `spans_in`, of a text in which nobody else looks."""
        return self.spans_in(Readings(text), is_json=is_json)

    def spans_in(self, readings: Readings, *, is_json: bool = False) -> list[Span]:
        """Where in the text it is found, in order, none over another. `is_json`: what is escaped in it is
        read, too. Raises MaskFailed."""
        if len(readings.text) > MAX_MASKED_CHARS:
            raise MaskFailed("the text is too large")
        found = list(islice(self._found(readings, is_json), MAX_MATCHES + 1))
        if len(found) > MAX_MATCHES:
            raise MaskFailed("the text has too many matches")
        return joined(found)

    def spans_either_way(self, readings: Readings) -> list[Span]:
        """The same where nobody knows whether it is JSON, or has some in it."""
        spans = self.spans_in(readings)
        return joined([*spans, *self.spans_in(readings, is_json=True)]) if "\\" in readings.text else spans

    def is_in(self, text: str) -> bool:
        """Raises MaskFailed."""
        return bool(self.places(text))

    def places(self, text: str, *, is_json: bool = False) -> list[Span]:
        """Where `masked` puts something else. Raises MaskFailed."""
        return self.spans(text, is_json=True) if is_json else self.spans_either_way(Readings(text))

    def masked(self, text: str, *, is_json: bool = False) -> str:
        """`text` without what is looked for. Of JSON, strings stay strings; in other text escapes may be
        JSON's and may be none, and both are looked through. Raises MaskFailed."""
        spans = self.places(text, is_json=is_json)
        if not spans:
            return text
        replacement = json.dumps(self.replacement)[1:-1] if is_json else self.replacement
        parts: list[str] = []
        place = 0
        for span in spans:
            parts += (text[place : span.start], replacement)
            place = span.end
        parts.append(text[place:])
        return "".join(parts)

    def _found(self, readings: Readings, is_json: bool) -> Iterator[Span]:
        reading = readings.plain(is_json=is_json)
        for kind in self.kinds:
            yield from (reading.source(*span) for span in _SPANS_OF[kind](reading.text))
        if self.patterns:
            searched = searchable(reading.text)
            for pattern in self.patterns:
                for match in pattern.finditer(searched):
                    if match.end() > match.start():
                        yield reading.source(*match.span())
        if self.needles:
            by_fold = readings.folded(is_json=is_json)
            for needle in self.needles:
                yield from (by_fold.source(*span) for span in word_spans(by_fold.text, needle))


@lru_cache(maxsize=1024)
def mask_compiled(action: MaskText) -> Mask:
    """Raises re2.error (an Exception) for a pattern that is none."""
    return Mask(
        kinds=action.kinds,
        needles=tuple(needle for needle in map(needle_of, action.words) if needle),
        patterns=tuple(
            pattern_compiled(pattern, max_memory_bytes=MAX_PATTERN_MEMORY_BYTES)
            for pattern in action.patterns
        ),
        replacement=action.replacement,
    )
