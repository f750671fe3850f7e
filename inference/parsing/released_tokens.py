"""The scored tokens of an answer whose text is held back and may be changed.

A token says what its text is. So it must not be out before its text is, and never where its text was
changed: those of text that was masked or replaced are left out, and the others keep the place that they have
in the text that goes out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from inference.domain.logprobs import ScoredToken
from inference.parsing.argument_changes import Change
from inference.parsing.output_window import Released


class ReleasedTokens(Protocol):
    """Of one answer: `add` with each part, then `take` with what of the text goes out."""

    def add(self, tokens: Sequence[ScoredToken], *, num_chars: int) -> None:
        """`num_chars` is the size of the part's content."""
        ...

    def take(self, released: Released, *, is_last: bool, has_changed: bool) -> tuple[ScoredToken, ...]:
        """Those that may go out with it. `has_changed`: anything of the answer so far."""
        ...


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A token of the characters from `start` to `end` of all content."""

    token: ScoredToken
    start: int
    end: int


class TextTokens:
    """Where nothing is parsed, tokens are exactly those of the content, and each goes out with its text."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._num_chars = 0
        self._first_offset: int | None = None
        self._changes: deque[Change] = deque()
        self._growth = 0

    def add(self, tokens: Sequence[ScoredToken], *, num_chars: int) -> None:
        begin = self._num_chars
        self._num_chars += num_chars
        if not tokens:
            return
        if self._first_offset is None:
            # An answer may begin behind its prompt.
            self._first_offset = tokens[0].offset - begin
        starts = [token.offset - self._first_offset for token in tokens]
        ends = [*starts[1:], self._num_chars]
        for token, start, end in zip(tokens, starts, ends, strict=True):
            # Who writes a part of a character only is of that character.
            self._waiting.append(_Waiting(token, start, max(end, min(start + 1, self._num_chars))))

    def take(self, released: Released, *, is_last: bool, has_changed: bool) -> tuple[ScoredToken, ...]:
        taken: list[ScoredToken] = []
        changes = self._changes
        changes.extend(released.changes)
        while self._waiting and self._waiting[0].end <= released.num_content_chars:
            one = self._waiting.popleft()
            while changes and changes[0].end <= one.start:
                self._growth += changes.popleft().growth
            if not changes or one.end <= changes[0].start:
                taken.append(replace(one.token, offset=one.token.offset + self._growth))
        return tuple(taken)


class LateTokens:
    """Where an answer is parsed, nobody knows which text a token wrote: markup is tokens, too, and text comes
    later than they do. They go out at the end, and only where nothing was changed."""

    def __init__(self) -> None:
        self._tokens: list[ScoredToken] = []

    def add(self, tokens: Sequence[ScoredToken], *, num_chars: int) -> None:
        self._tokens += tokens

    def take(self, released: Released, *, is_last: bool, has_changed: bool) -> tuple[ScoredToken, ...]:
        return tuple(self._tokens) if is_last and not has_changed else ()
