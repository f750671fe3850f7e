"""Text that is still being generated, read as if it were all there.

A format is easiest to write, and to get right, as a reader that goes forward from one mark to the next.
Here such a reader is a generator: where it needs text that has not come yet it yields, and goes on when
there is more. What it decides depends on the text alone, never on how the text was cut, because it
decides only when no continuation could change the answer. Every character is read once: linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Final, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
Take = Callable[[str], None]

_SPACE: Final = re.compile(r"\s*")


class Markers:
    """Texts to look for, all at once. None of them is a part of another: then the first that is found
    is the right one however much text is still to come."""

    __slots__ = ("_beginnings", "_find", "_find_beginning", "_max_held", "texts")

    def __init__(self, texts: Sequence[str]) -> None:
        for text in texts:
            if not text or any(text in other for other in texts if other is not text):
                raise ValueError(f"{text!r} is empty or a part of another marker")
        self.texts = tuple(texts)
        firsts = "".join(sorted({re.escape(text[0]) for text in texts}))
        self._find = re.compile("|".join(map(re.escape, texts)) if texts else r"(?!)")
        self._find_beginning = re.compile(f"[{firsts}]" if texts else r"(?!)")
        self._beginnings = frozenset(text[:size] for text in texts for size in range(1, len(text)))
        self._max_held = max(map(len, texts), default=1) - 1

    def find(self, text: str, at: int) -> re.Match[str] | None:
        """The first of them from `at` on."""
        return self._find.search(text, at)

    def num_held(self, text: str, at: int) -> int:
        """How many characters at the end of `text` may be the beginning of one."""
        at = max(at, len(text) - self._max_held)
        while (begun := self._find_beginning.search(text, at)) is not None:
            if text[begun.start() :] in self._beginnings:
                return len(text) - begun.start()
            at = begun.start() + 1
        return 0


@lru_cache(maxsize=1024)
def markers(*texts: str) -> Markers:
    """Made once for each set of texts; these come from formats and from names of tools."""
    return Markers(texts)


class TextSource:
    """The text of one answer and how far it has been read.

    Between `begin_attempt` and its end, what is read is remembered, so that what turns out not to be
    markup can be given back as the text that it is.
    """

    __slots__ = ("_attempt", "_taker", "at", "is_ended", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.is_ended = False
        self._attempt: list[str] | None = None
        self._taker: Take | None = None

    def is_given_to(self, *takers: Take) -> bool:
        """All text so far was read, outside of any attempt, and what comes next goes to one of `takers`
        unless a marker begins with it."""
        return self._attempt is None and self.at >= len(self.text) and self._taker in takers

    def add(self, text: str) -> None:
        if self.at < len(self.text):
            text = self.text[self.at :] + text
        self.text, self.at = text, 0

    def more(self) -> Steps[bool]:
        """Wait for more text; False where there will be none."""
        if self.is_ended:
            return False
        yield
        return True

    def take(self, size: int) -> str:
        """Read `size` characters that are there."""
        piece = self.text[self.at : self.at + size]
        self.at += size
        if self._attempt is not None:
            self._attempt.append(piece)
        return piece

    def begin_attempt(self, marker: str) -> None:
        self._attempt = [marker]

    def end_attempt(self) -> str:
        """What was read since the attempt began, with its marker; "" where it was accepted before."""
        attempt, self._attempt = self._attempt, None
        return "".join(attempt) if attempt else ""

    # -- readers: `yield from` them ---------------------------------------------------------------

    def until(self, found: Markers, take: Take) -> Steps[str | None]:
        """Give text to `take` as it comes, up to the first marker, which is read too and returned; None
        where the text ended without one."""
        while True:
            match = found.find(self.text, self.at)
            if match is not None:
                if match.start() > self.at:
                    take(self.take(match.start() - self.at))
                return self.take(len(match[0]))
            size = len(self.text) - self.at - (0 if self.is_ended else found.num_held(self.text, self.at))
            if size:
                take(self.take(size))
            self._taker = take
            has_more = yield from self.more()
            self._taker = None
            if not has_more:
                return None

    def expect(self, *texts: str) -> Steps[str | None]:
        """Read whichever of `texts` comes next; None, and nothing read, where none does."""
        while True:
            rest = self.text[self.at : self.at + max(map(len, texts))]
            for text in texts:
                if rest.startswith(text):
                    return self.take(len(text))
            if not any(text.startswith(rest) for text in texts) or not (yield from self.more()):
                return None

    def space(self) -> Steps[str]:
        """Read whitespace up to what is none, or to the end."""
        pieces = []
        while True:
            match = _SPACE.match(self.text, self.at)
            assert match is not None
            if match.end() > self.at:
                pieces.append(self.take(match.end() - self.at))
            if self.at < len(self.text) or not (yield from self.more()):
                return "".join(pieces)

    def next_char(self) -> Steps[str]:
        """What comes next, unread; "" at the end."""
        while self.at >= len(self.text):
            if not (yield from self.more()):
                return ""
        return self.text[self.at]

    def run(self, pattern: re.Pattern[str], *, max_chars: int) -> Steps[str]:
        """Read the longest run of characters that match `pattern` (of any number of them), at most
        `max_chars`."""
        pieces: list[str] = []
        num_left = max_chars
        while True:
            match = pattern.match(self.text, self.at, min(self.at + num_left, len(self.text)))
            if match is not None and match.end() > self.at:
                num_left -= match.end() - self.at
                pieces.append(self.take(match.end() - self.at))
            if not num_left or self.at < len(self.text) or not (yield from self.more()):
                return "".join(pieces)
