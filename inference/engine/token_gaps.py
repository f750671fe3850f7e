"""Ends answers whose next token does not come in time.

A time limit for each token would be a timer for each token. So there is a look twice a second at those that
have such a limit, on the event loop: it also answers where the engine itself hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from inference.domain.errors import GenerationTimeout

LOOK_EVERY_S = 0.5


class GapLimited(Protocol):
    """An answer that may wait so long for its next token."""

    @property
    def max_token_gap_s(self) -> float: ...

    def waiting_s(self, now_ts: float) -> float:
        """How long it has been waiting for its next token: 0 before its first one, and while it stands
        still for its own reader or a hook."""
        ...

    def give_up(self, error: GenerationTimeout) -> None:
        """End it with this error."""
        ...


class TokenGapWatch:
    """The answers of one event loop that have a limit. No timer runs while there are none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        """`now` is the engine's monotonic clock."""
        self._loop = loop
        self._now = now
        self._watched: set[GapLimited] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.total_given_up = 0

    def add(self, answer: GapLimited) -> None:
        self._watched.add(answer)
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_EVERY_S, self._look_again)

    def discard(self, answer: GapLimited) -> None:
        self._watched.discard(answer)

    def look(self) -> None:
        """End those whose time is over."""
        now_ts = self._now()
        for answer in list(self._watched):
            if answer.waiting_s(now_ts) > answer.max_token_gap_s:
                self.total_given_up += 1
                answer.give_up(
                    GenerationTimeout(
                        f"The next token of the answer did not come within {answer.max_token_gap_s:g} s."
                    )
                )

    def _look_again(self) -> None:
        self._timer = None
        if self._watched:
            self._timer = self._loop.call_later(LOOK_EVERY_S, self._look_again)
            self.look()

    def __repr__(self) -> str:
        return f"<TokenGapWatch {len(self._watched)} watched, {self.total_given_up} given up>"
