"""Ends an answer at a stop string that no token boundary respects.

A stop can begin in one token and end three tokens later. Text that might be its beginning must not
be sent, because it could not be taken back; text that cannot be must not wait. And the work for a
token must not grow with the stops, which the caller chooses.

Which stop wins: the one that is complete first as the answer is read character by character, and of
several that end with the same character the one that began first (the longest). That is the only
rule under which the answer is the same however it is cut into tokens: to prefer an earlier
beginning, one would have to read on past a stop that is already complete.
"""

from __future__ import annotations

from collections.abc import Sequence


class _StopString:
    """One stop and how much of it the text so far ends with (Knuth, Morris and Pratt's automaton).

    `num_matched` is the length of the longest beginning of the stop that is an end of the text.
    Each character moves it by at most one up, so that the steps down are paid for: linear.
    """

    __slots__ = ("_fallback", "num_matched", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.num_matched = 0
        # fallback[n]: where to go on when character n does not match.
        fallback = [0] * (len(text) + 1)
        length = 0
        for index in range(1, len(text)):
            while length and text[index] != text[length]:
                length = fallback[length]
            if text[index] == text[length]:
                length += 1
            fallback[index + 1] = length
        self._fallback = fallback

    def __len__(self) -> int:
        return len(self.text)

    def find_end(self, text: str) -> int | None:
        """Read `text`; the position after the character that completes the stop, if one does."""
        stop, fallback, matched = self.text, self._fallback, self.num_matched
        first, size = stop[0], len(stop)
        position, end = 0, len(text)
        while position < end:
            if not matched:
                # The usual case: nothing has begun. Look for the next beginning at C's speed.
                position = text.find(first, position)
                if position < 0:
                    break
                matched = 1
            else:
                character = text[position]
                while matched and character != stop[matched]:
                    matched = fallback[matched]
                if character == stop[matched]:
                    matched += 1
            position += 1
            if matched == size:
                self.num_matched = 0
                return position
        self.num_matched = matched
        return None


class StopStrings:
    """Watches the text of one answer for its stops; sent text never holds a part of one.

    `push` returns what may be sent. After a stop (`found`) `is_stopped` is True and all later text is
    dropped. At the end of an answer that met no stop, `flush` returns what was held back. The text of the
    first `num_unwatched` tokens (`count` tells of each before its text comes) is only passed on: a stop
    begins behind it.
    """

    def __init__(self, stops: Sequence[str], *, num_unwatched: int = 0) -> None:
        """`stops` are not empty strings (the wire refuses those). None of them: nothing is held."""
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self._stops = tuple(_StopString(stop) for stop in stops)
        self._held = ""
        self._num_unwatched = num_unwatched
        self._is_watching = not num_unwatched
        self.found: str | None = None
        """The stop that ended the answer."""

    @property
    def is_stopped(self) -> bool:
        return self.found is not None

    def count(self) -> None:
        """The next token's text comes now."""
        if self._num_unwatched:
            self._num_unwatched -= 1
        else:
            self._is_watching = True

    def push(self, text: str) -> str:
        if self.found is not None or not text:
            return ""
        if not self._stops or not self._is_watching:
            return text
        first_end: int | None = None
        longest = ""
        for stop in self._stops:
            # A stop that would end behind the first one found cannot win.
            end = stop.find_end(text if first_end is None else text[:first_end])
            if end is None:
                continue
            if first_end is None or end < first_end:
                first_end, longest = end, stop.text
            elif len(stop) > len(longest):
                longest = stop.text
        seen = self._held + text
        if first_end is not None:
            self.found = longest
            self._held = ""
            return seen[: len(seen) - len(text) + first_end - len(longest)]
        num_held = max(stop.num_matched for stop in self._stops)
        self._held = seen[len(seen) - num_held :]
        return seen[: len(seen) - num_held]

    def flush(self) -> str:
        """The end of the text: a beginning of a stop that was never completed is just text. What comes
        later is another text."""
        held, self._held = self._held, ""
        for stop in self._stops:
            stop.num_matched = 0
        return held
