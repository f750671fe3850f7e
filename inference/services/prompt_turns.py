"""Whose prompt is rendered and tokenized next? Each user's in turn.

Prompts go through a few threads before anybody can say whether they fit. In the order of arrival, one
user with some dozens of huge prompts, all of them refused in the end, kept the short ones of everybody
else waiting for a quarter of a minute, in front of a queue that would have served those first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque


class PromptTurns:
    """At most `max_at_once` have a turn at the same time. For one event loop.

    Users that wait are served alternately, each one's own in their order.
    """

    def __init__(self, *, max_at_once: int) -> None:
        self._max_at_once = max_at_once
        self._num_taken = 0
        self._waiting: OrderedDict[int, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, user_id: int) -> None:
        """Wait for a turn, which `end` gives back. May be cancelled at any time."""
        if self._num_taken < self._max_at_once:
            self._num_taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end()  # it was its turn already
            else:
                self._forget(user_id, turn)
            raise

    def end(self) -> None:
        """A turn is over: it goes to the next user in line."""
        while self._waiting:
            user_id, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[user_id] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._num_taken -= 1

    def _forget(self, user_id: int, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(user_id)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[user_id]

    def __repr__(self) -> str:
        num_waiting = sum(map(len, self._waiting.values()))
        return f"<PromptTurns: {self._num_taken} of {self._max_at_once} taken, {num_waiting} waiting>"
