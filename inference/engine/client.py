"""The engine as the event loop sees it: submit, iterate, hold, cancel.

Events cross from the engine thread in one wake-up for each step, not one for each token, and not
even that while an earlier wake-up is still on its way. The engine never waits for a reader: a handle
whose reader is behind holds its sequence, and the batch goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from inference.domain.admission import AdmissionDesk, AdmissionSource, EventSink, Submission
from inference.domain.backend import HoldReason, Newcomer
from inference.domain.errors import ServerOverloaded, ServiceUnavailable, SkippyError
from inference.domain.events import Event, Failed
from inference.domain.requests import GenerationRequest
from inference.engine.handle import EngineHandle
from inference.engine.stats import EngineStatistics
from inference.engine.thread import EngineState, EngineThread
from inference.engine.token_gaps import TokenGapWatch

logger = logging.getLogger(__name__)

LOADING_MESSAGE = "The model is still loading."
STOPPED_MESSAGE = "The engine is not running."


class Admission(AdmissionDesk, AdmissionSource, Protocol):
    """Both sides of admission: callers submit to it, the engine elects from it."""


class EngineClient:
    """A GenerationBackend over an engine thread and an admission desk, for one event loop.

    `loop` may be left out where the client is made on it. All methods belong to that loop, except
    `statistics`, which any thread may read.
    """

    def __init__(
        self,
        thread: EngineThread,
        admission: Admission,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._thread = thread
        self._admission = admission
        self._loop = loop or asyncio.get_running_loop()
        self._outbox: deque[list[tuple[EventSink, Event]]] = deque()
        self._is_wakeup_due = False
        self._open: set[EngineHandle] = set()
        self.token_gaps = TokenGapWatch(self._loop, thread.clock.monotonic)
        thread.connect(self._receive, self._receive_end)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive

    @property
    def statistics(self) -> EngineStatistics:
        return self._thread.statistics

    @property
    def now_ts(self) -> float:
        """The engine's monotonic clock."""
        return self._thread.clock.monotonic()

    @property
    def max_requests(self) -> int:
        """Requests that can run and wait at the same time."""
        return self._admission.max_requests

    async def start(self) -> None:
        """Start the engine thread and wait until it serves; raises what kept it from that."""
        await asyncio.to_thread(self._thread.start)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything that runs or waits has ended; False after `timeout_s`."""
        return await asyncio.to_thread(self._thread.drain, timeout_s)

    async def stop(self, timeout_s: float = 30.0) -> bool:
        """Stop the engine; what has not ended gets ServiceUnavailable. False if it hangs."""
        return await asyncio.to_thread(self._thread.stop, timeout_s)

    def submit(self, request: GenerationRequest, *, deadline_ts: float | None = None) -> EngineHandle:
        """Queue a request. Raises ServerOverloaded, ContextLengthExceeded or ServiceUnavailable."""
        if not self._thread.is_alive:
            is_early = self._thread.state in (EngineState.NEW, EngineState.LOADING)
            raise ServiceUnavailable(LOADING_MESSAGE if is_early else STOPPED_MESSAGE)
        handle = EngineHandle(self, request, self.now_ts, deadline_ts)
        handle.queued(self._admission.submit(handle.submission))
        self._open.add(handle)
        if handle.max_token_gap_s:
            self.token_gaps.add(handle)
        self._thread.wake()
        return handle

    def refuse_early(self, newcomer: Newcomer) -> None:
        """Raise what `submit` would raise for want of room, before the prompt is tokenized."""
        self._admission.refuse_early(newcomer)

    def reject_overdue(self, *, request_id: str, user_id: int, allowed_s: float) -> ServerOverloaded:
        """The error for a request that had no lane within `allowed_s` seconds."""
        return self._admission.reject_overdue(request_id=request_id, user_id=user_id, allowed_s=allowed_s)

    def refuse(self, error: SkippyError) -> None:
        """Take no newcomers from now on; what waits fails with `error` at once, what runs goes on."""
        self.fail(self._admission.close(error), error)

    def fail(self, waiting: Iterable[Submission], error: SkippyError) -> None:
        """Tell the owners of submissions that were taken out of the queue."""
        now_ts = self.now_ts
        for submission in waiting:
            if isinstance(submission.sink, EngineHandle):
                submission.sink.push(Failed(error, now_ts))

    # -- from handles ---------------------------------------------------------------------------

    def forget(self, handle: EngineHandle) -> None:
        self._open.discard(handle)
        self.token_gaps.discard(handle)

    def cancel(self, submission: Submission) -> None:
        self._thread.cancel(submission)

    def hold(self, submission: Submission, reason: HoldReason) -> None:
        self._thread.hold(submission, reason)

    def resume(self, submission: Submission, reason: HoldReason) -> None:
        self._thread.resume(submission, reason)

    def inject(self, submission: Submission, token_ids: tuple[int, ...]) -> None:
        self._thread.inject(submission, token_ids)

    # -- from the engine thread -----------------------------------------------------------------

    def _receive(self, events: list[tuple[EventSink, Event]]) -> None:
        self._outbox.append(events)
        # Cleared before the outbox is emptied, so what comes later always finds a wake-up due.
        if not self._is_wakeup_due:
            self._is_wakeup_due = True
            self._call(self._hand_over)

    def _receive_end(self, error: ServiceUnavailable) -> None:
        self._call(self._close, error)

    def _call(self, function: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            # The loop was closed before the engine was stopped: nobody is left to read.
            self._outbox.clear()
            self._is_wakeup_due = False
            logger.warning("Events of the engine came after the end of the event loop")

    # -- on the event loop ----------------------------------------------------------------------

    def _hand_over(self) -> None:
        self._is_wakeup_due = False
        while self._outbox:
            for sink, event in self._outbox.popleft():
                if isinstance(sink, EngineHandle):
                    sink.push(event)

    def _close(self, error: ServiceUnavailable) -> None:
        """The engine has ended and told everybody it knew of; whoever is still open was lost."""
        self._hand_over()
        for handle in list(self._open):
            handle.push(Failed(error, self.now_ts))

    def __repr__(self) -> str:
        return f"<EngineClient {len(self._open)} open, {self._thread!r}>"
