"""One request in the engine as its owner on the event loop holds it: iterate, hold, cancel.

A reader that is behind does not make the engine wait: at sixteen unread events the handle holds its
sequence, and the batch goes on without it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from inference.domain.admission import Submission, Ticket
from inference.domain.backend import HoldReason
from inference.domain.errors import GenerationFailed, SkippyError
from inference.domain.events import Dropped, Event, Failed, Finished, Started, TokenBatch
from inference.domain.requests import GenerationRequest
from inference.domain.timings import Timings

# Events that may lie unread before the sequence is held, and at how few of them it goes on.
MAX_UNREAD_EVENTS = 16
RESUME_AT_EVENTS = 8


class HandleOwner(Protocol):
    """What a handle needs of the engine's client."""

    @property
    def now_ts(self) -> float: ...

    def cancel(self, submission: Submission) -> None: ...

    def hold(self, submission: Submission, reason: HoldReason) -> None: ...

    def resume(self, submission: Submission, reason: HoldReason) -> None: ...

    def inject(self, submission: Submission, token_ids: tuple[int, ...]) -> None: ...

    def forget(self, handle: EngineHandle) -> None: ...


class EngineHandle:
    """One submitted request on the event loop: a GenerationHandle, and the sink of its events."""

    __slots__ = (
        "_behind_s",
        "_client",
        "_events",
        "_full_since_ts",
        "_has_ended",
        "_is_cancelled",
        "_is_full",
        "_is_released",
        "_last_token_ts",
        "_on_released",
        "_take",
        "_ticket",
        "_waiter",
        "max_token_gap_s",
        "submission",
    )

    def __init__(
        self,
        client: HandleOwner,
        request: GenerationRequest,
        submitted_ts: float,
        deadline_ts: float | None,
    ) -> None:
        self.submission = Submission(request, self, submitted_ts, deadline_ts)
        self._client = client
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ticket: Ticket | None = None
        self._has_ended = False
        self._is_cancelled = False
        self._is_full = False
        self._full_since_ts = 0.0
        self._behind_s = 0.0
        self._is_released = False
        self._on_released: Callable[[], None] | None = None
        self._take: Callable[[TokenBatch], bool] | None = None
        # 0: none, neither a limit nor a token so far.
        self.max_token_gap_s = request.max_token_gap_s or 0.0
        self._last_token_ts = 0.0

    def __aiter__(self) -> EngineHandle:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._has_ended or self._is_cancelled:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event = self._events.popleft()
        if self._is_full and len(self._events) <= RESUME_AT_EVENTS:
            self._is_full = False
            self._behind_s += self._client.now_ts - self._full_since_ts
            self.resume(HoldReason.READER)
        return event

    def take_at_once(self, take: Callable[[TokenBatch], bool]) -> None:
        """Offer tokens to `take` while their owner waits for them: a task that is woken for each costs
        more than what is done with it. What `take` raises comes out of the owner's wait."""
        self._take = take

    def cancel(self) -> None:
        """Leave the queue, or free the lane within one step. Nothing after the ending."""
        if self._has_ended or self._is_cancelled:
            return
        self._is_cancelled = True
        self._events.clear()
        self._wake()
        if self._ticket is None or self._ticket.withdraw():
            self._let_go()
        else:
            self._client.cancel(self.submission)

    def waiting_s(self, now_ts: float) -> float:
        """How long it has been waiting for its next token. Who holds it, or does not read what is there,
        starts the time anew: after that the engine has all of it again."""
        if not self._last_token_ts or self._has_ended or self._is_cancelled:
            return 0.0
        if self.submission.holds or self._events:
            self._last_token_ts = now_ts
        return now_ts - self._last_token_ts

    def give_up(self, error: SkippyError) -> None:
        """End it with an error of its own, as if the engine had said so, and free its lane."""
        if self._has_ended or self._is_cancelled:
            return
        self._has_ended = True
        self._client.cancel(self.submission)
        self._queue(Failed(error, self._client.now_ts))

    def note_completed(self, timings: Timings) -> None:
        """Tell admission what the answer took; not the time in which it stood still for its reader."""
        if self._ticket is not None:
            predicted_s = max(0.0, timings.predicted_s - self._behind_s)
            self._ticket.note_completed(replace(timings, predicted_s=predicted_s))

    def when_released(self, call: Callable[[], None]) -> None:
        """Have `call` called once the engine holds nothing of it; at once where that is so already."""
        if self._is_released:
            call()
        else:
            self._on_released = call

    def _let_go(self) -> None:
        self._is_released = True
        self._client.forget(self)
        call, self._on_released = self._on_released, None
        if call is not None:
            call()

    def hold(self, reason: HoldReason) -> None:
        """Let it stand still from the next step on, until every reason was taken back."""
        if not self._has_ended and not self._is_cancelled:
            self._client.hold(self.submission, reason)

    def resume(self, reason: HoldReason) -> None:
        """Take one reason back."""
        if not self._has_ended and not self._is_cancelled:
            self._client.resume(self.submission, reason)

    def inject(self, token_ids: tuple[int, ...]) -> None:
        """Let the answer go on behind these, instead of behind the token that the signals came with."""
        if not self._has_ended and not self._is_cancelled:
            self._client.inject(self.submission, token_ids)

    def queued(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def push(self, event: Event) -> None:
        if type(event) is TokenBatch:
            self._last_token_ts = event.at_ts
            if not self._has_ended and not self._is_cancelled and not self._is_taken(event):
                self._queue(event)
            return
        is_ending = isinstance(event, Finished | Failed | Dropped)
        if is_ending and not self._is_released:
            self._let_go()
        if self._has_ended or self._is_cancelled:
            return
        if self._ticket is not None:
            if isinstance(event, Started):
                self._ticket.note_started()
            elif isinstance(event, Failed) and isinstance(event.error, GenerationFailed):
                self._ticket.note_failed()
        self._has_ended = is_ending
        self._queue(event)

    def _is_taken(self, batch: TokenBatch) -> bool:
        """In order: only while nothing older is unread, and its owner does nothing else."""
        waiter = self._waiter
        if self._take is None or waiter is None or self._events or waiter.done():
            return False
        try:
            return self._take(batch)
        except Exception as error:
            waiter.set_exception(error)
            return True

    def _queue(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= MAX_UNREAD_EVENTS and not self._is_full:
            self._is_full = True
            self._full_since_ts = self._client.now_ts
            self.hold(HoldReason.READER)
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def __repr__(self) -> str:
        state = "ended" if self._has_ended else "cancelled" if self._is_cancelled else "open"
        return f"<EngineHandle {self.submission.request.request_id} {state}, {len(self._events)} events>"
