"""Requests and tokens of the last minute, counted by the second.

What a counter per calendar minute lets through (twice its limit around the turn of the minute) is not
let through here: in no sixty seconds is more used than the limit. For that a second counts until
sixty seconds after its end. It is no log of requests: sixty-one entries are the most that there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

WINDOW_S = 60


class MinuteWindow:
    """Instants are Unix seconds of whoever counts. A `slot` is the second that something was counted
    in, by its end; with it the count can be corrected later."""

    def __init__(self, entries: Iterable[tuple[int, int, int]] = ()) -> None:
        """Entries are (slot, requests, tokens) in the order of their slots."""
        self._entries = [list(entry) for entry in entries]

    def __repr__(self) -> str:
        return f"<MinuteWindow {self.num_requests} requests, {self.num_tokens} tokens>"

    @classmethod
    def from_numbers(cls, numbers: list[int]) -> MinuteWindow:
        """What `numbers` gave."""
        return cls(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))

    def numbers(self) -> list[int]:
        """All of it as one flat list, to be stored."""
        return [number for entry in self._entries for number in entry]

    @property
    def num_requests(self) -> int:
        return sum([entry[1] for entry in self._entries])

    @property
    def num_tokens(self) -> int:
        return sum([entry[2] for entry in self._entries])

    def forget(self, now: float) -> None:
        """Drop what no longer counts at `now`."""
        if self._entries and self._entries[0][0] + WINDOW_S <= now:
            self._entries = [entry for entry in self._entries if entry[0] + WINDOW_S > now]

    def add(self, now: float, *, num_requests: int = 0, num_tokens: int = 0) -> int:
        """Count at `now`; returns the slot."""
        slot = floor(now) + 1
        for entry in reversed(self._entries):
            if entry[0] == slot:
                entry[1] += num_requests
                entry[2] += num_tokens
                return slot
        self._entries.append([slot, num_requests, num_tokens])
        self._entries.sort()  # a clock may have gone backwards
        return slot

    def correct(self, slot: int, *, num_requests: int = 0, num_tokens: int = 0) -> None:
        """Change what was counted in `slot`, never below nothing; a slot that is gone stays gone."""
        for entry in self._entries:
            if entry[0] == slot:
                entry[1] = max(0, entry[1] + num_requests)
                entry[2] = max(0, entry[2] + num_tokens)

    def wait_for_requests(self, now: float, *, excess: int) -> float:
        """Seconds until `excess` of the requests no longer count."""
        return self._wait(now, excess, column=1)

    def wait_for_tokens(self, now: float, *, excess: int) -> float:
        """Seconds until `excess` of the tokens no longer count."""
        return self._wait(now, excess, column=2)

    def reset_s(self, now: float) -> float:
        """Seconds until nothing counts any more."""
        return max(0.0, self._entries[-1][0] + WINDOW_S - now) if self._entries else 0.0

    def _wait(self, now: float, excess: int, *, column: int) -> float:
        for entry in self._entries:
            excess -= entry[column]
            if excess <= 0:
                return max(0.0, entry[0] + WINDOW_S - now)
        return float(WINDOW_S)
