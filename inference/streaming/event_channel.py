"""The last stretch from a request's events to its client, and what is done about clients that are lost.

A reader that has stopped without closing its connection would keep a lane for ever. The way to it is
bounded: the server's socket buffers, one message that waits in `send`, and the few events that the
engine's handle keeps before it holds the sequence. Here is the limit of time: a message that waits
longer than the stall limit ends the request, whatever it was doing, and aborts the socket (returning
would wait for a flush that a stalled reader never allows).

A silent stream is the other half: the connection must show signs of life to the proxies on its way
while the request waits in the queue or its sequence stands still.

Both are watched by one timer for each request, which looks a few times a minute; a message costs two
readings of the clock and no task, queue or timer of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol

from inference.domain.admission_events import ReceiverOutcome

Send = Callable[[dict[str, Any]], Awaitable[None]]
Say = Callable[[], Awaitable[None]]

_log = logging.getLogger(__name__)


class BodyWriter(Protocol):
    """What a server may offer beside `send`: parts of a body that need no wait."""

    @property
    def is_writable(self) -> bool: ...

    def write(self, part: bytes) -> None: ...


class ReceiverLost(Exception):
    """Nothing that is sent can reach the client any more."""

    def __init__(self, loss: ReceiverOutcome) -> None:
        super().__init__(loss.value)
        self.loss = loss


class EventChannel:
    """Sends one answer. Used as an asynchronous context by the one task that serves the request; what
    the watch ends leaves the context as ReceiverLost.

    `send` waits while the client reads too slowly. `abort` closes its connection at once; `writer`, where
    the server has one, takes what need not wait. A limit of
    0 s means that there is none. Cancelling the task has precedence over all of this: it ends a
    blocked `send` at once, and a cancelled task can still send its last frames.
    """

    def __init__(
        self,
        send: Send,
        *,
        stall_limit_s: float,
        abort: Callable[[], None],
        writer: BodyWriter | None = None,
    ) -> None:
        self.loss: ReceiverOutcome | None = None
        self.is_terminal = False
        """The answer is complete; what is still sent are its last frames."""
        self.stall_limit_s = stall_limit_s
        self._send = send
        self._abort = abort
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._sending_since_ts: float | None = None
        self._last_sent_ts: float | None = None
        self._say: Say | None = None
        self._first_word_ts: float | None = None
        self._silence_s = 0.0
        self._saying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._owner: asyncio.Task[Any] | None = None
        self._num_cancellations = 0

    # -- sending ----------------------------------------------------------------------------------

    async def send(self, message: dict[str, Any]) -> None:
        """Send in order, waiting for room. Raises ReceiverLost at once where the client is known to
        be lost: nobody waits for it twice."""
        if self.loss is not None:
            raise ReceiverLost(self.loss)
        if self._saying is not None and self._saying is not asyncio.current_task():
            await asyncio.wait([self._saying])
        self._sending_since_ts = self._loop.time()
        try:
            await self._send(message)
        finally:
            self._sending_since_ts = None
            self._last_sent_ts = self._loop.time()

    @property
    def is_writable(self) -> bool:
        """Whether `write` may be called now: the answer's body has begun, its client reads, and nothing
        else is being sent."""
        return (
            self._writer is not None
            and self.loss is None
            and self._saying is None
            and self._sending_since_ts is None
            and self._writer.is_writable
        )

    def write(self, part: bytes) -> None:
        """Send a part of a body without a wait. Only where `is_writable`."""
        assert self._writer is not None
        self._writer.write(part)
        self._last_sent_ts = self._loop.time()

    def drop(self) -> None:
        """The client has closed its connection; the first loss is the one that counts."""
        if self.loss is None:
            self.loss = ReceiverOutcome.DROPPED

    def keep_alive(self, say: Say, *, first_s: float, every_s: float) -> None:
        """Call `say` if nothing was sent within `first_s` from now, and then after every `every_s`
        without a message; 0 is never. `say` sends through this channel."""
        self._say = say
        self._first_word_ts = self._loop.time() + first_s if first_s else None
        self._silence_s = every_s
        self._look()

    # -- watching ---------------------------------------------------------------------------------

    async def __aenter__(self) -> EventChannel:
        self._owner = asyncio.current_task()
        assert self._owner is not None
        self._num_cancellations = self._owner.cancelling()
        self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        owner, self._owner, self._say = self._owner, None, None
        if self._saying is not None:
            self._saying.cancel()
            await asyncio.wait([self._saying])
        if (
            self.loss is ReceiverOutcome.STALLED
            and kind is asyncio.CancelledError
            and owner is not None
            and owner.uncancel() <= self._num_cancellations
        ):
            raise ReceiverLost(self.loss) from None

    def _look(self) -> None:
        """End what is stalled, say something where it is silent, and look again when either can next
        be the case."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._owner is None or self.loss is not None:
            return
        now_ts = self._loop.time()
        dues_ts: list[float] = []
        if self.stall_limit_s:
            since_ts = now_ts if self._sending_since_ts is None else self._sending_since_ts
            if since_ts + self.stall_limit_s <= now_ts:
                self._give_up()
                return
            dues_ts.append(since_ts + self.stall_limit_s)
        word_ts = self._next_word_ts(now_ts)
        if word_ts is not None and word_ts <= now_ts:
            self._start_saying()
            word_ts = now_ts + self._silence_s if self._silence_s else None
        if word_ts is not None:
            dues_ts.append(word_ts)
        if dues_ts:
            self._timer = self._loop.call_at(min(dues_ts), self._look)

    def _next_word_ts(self, now_ts: float) -> float | None:
        """When something is to be said if nothing is sent until then; None is never."""
        if self._say is None:
            return None
        if self._sending_since_ts is not None:
            return now_ts + self._silence_s if self._silence_s else None
        if self._last_sent_ts is None:
            return self._first_word_ts
        return self._last_sent_ts + self._silence_s if self._silence_s else None

    def _start_saying(self) -> None:
        if self._saying is None and self._say is not None:
            self._saying = self._loop.create_task(self._say_once(self._say))

    async def _say_once(self, say: Say) -> None:
        try:
            await say()
        except ReceiverLost:
            pass
        except Exception:
            _log.exception("a silent stream could not be kept alive")
        finally:
            self._saying = None

    def _give_up(self) -> None:
        self.loss = ReceiverOutcome.STALLED
        self._abort()
        assert self._owner is not None
        self._owner.cancel()

    def __repr__(self) -> str:
        state = self.loss.value if self.loss else "idle" if self._sending_since_ts is None else "sending"
        return f"<EventChannel {state}>"
