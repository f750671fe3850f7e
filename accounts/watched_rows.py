"""What rows say, in the memory of a process that serves: read again when somebody says that they were
changed, and every few seconds in any case.

A request looks at the snapshot and never waits. While the database is away the last snapshot holds: what it
says is not lost by that, and neither is what was taken back brought back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar

import psycopg

from accounts.channel_listener import ChannelListener

_log = logging.getLogger(__name__)

# What is never heard of is found by reading: half of what a change may take to arrive.
READ_EVERY_S = 2.0
# How long a reading is waited for before that is called a failure. It is not given up: two that hang would
# be two threads that hang.
PATIENCE_S = 5.0

T = TypeVar("T")


class WatchedRows(Generic[T]):
    """For one process and its event loop. `start()` reads for the first time; where that fails, `unread`
    holds. `run()` is a task until it is cancelled.
    """

    def __init__(
        self,
        unread: T,
        *,
        what: str,
        read: Callable[[], Coroutine[Any, Any, T]],
        parameters: Mapping[str, Any],
        channel: str,
        read_every_s: float = READ_EVERY_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`what` are the rows, for the log (a plural). `read` asks the database without holding up the event
        loop. `parameters` are psycopg's (libpq's), for one idle connection that hears of changes on
        `channel`."""
        self._what = what
        self._read = read
        self._is_changed = asyncio.Event()
        self._channel = ChannelListener(
            parameters,
            channel,
            what=f"changes of {what}",
            heard=self._heard,
            # What was said before somebody listened.
            began=self._is_changed.set,
            patience_s=patience_s,
        )
        self._read_every_s = read_every_s
        self._patience_s = patience_s
        self._snapshot = unread
        self._told: list[Callable[[T], None]] = []
        self._reading: asyncio.Task[T] | None = None
        self.is_away = False
        """The last reading failed."""
        self.total_readings = 0

    @property
    def is_listening(self) -> bool:
        return self._channel.is_listening

    @property
    def snapshot(self) -> T:
        return self._snapshot

    def subscribe(self, told: Callable[[T], None]) -> None:
        self._told.append(told)
        told(self._snapshot)

    async def start(self) -> None:
        await self.refresh()

    async def run(self) -> None:
        listening = asyncio.create_task(self._channel.run())
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._read_every_s):
                        await self._is_changed.wait()
                self._is_changed.clear()
                await self.refresh()
        finally:
            for task in (listening, self._reading):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

    async def refresh(self) -> None:
        """Read now. Where that fails, or takes too long, what there is holds."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(self._patience_s):
                found = await asyncio.shield(self._reading)
        except TimeoutError:
            if self._reading.done():  # its own error, not our patience
                self._reading = None
            self._note_away("no answer")
        except Exception as problem:
            self._reading = None
            self._note_away(type(problem).__name__)
        else:
            self._reading = None
            if self.is_away:
                self.is_away = False
                _log.info("%s can be read again", self._what)
            self._take(found)

    def complain(self, found: T) -> None:
        """Say of what was found, which is not what there was, what whoever runs the service has to know."""

    def _take(self, found: T) -> None:
        self.total_readings += 1
        if found == self._snapshot:
            return
        self.complain(found)
        self._snapshot = found
        for told in self._told:
            try:
                told(found)
            except Exception as problem:  # the next one is told all the same, and the next change too
                _log.error("%s could not be passed on: %s", self._what, type(problem).__name__)

    def _note_away(self, cause: str) -> None:
        if not self.is_away:
            self.is_away = True
            _log.warning("%s cannot be read (%s): those that were read last hold", self._what, cause)

    async def _heard(self, connection: psycopg.AsyncConnection[Any], said: Sequence[str]) -> None:
        self._is_changed.set()

    def __repr__(self) -> str:
        heard = "listening" if self.is_listening else "not listening"
        away = ", the database is away" if self.is_away else ""
        return f"<{type(self).__name__} of {self._what}, {heard}{away}>"
