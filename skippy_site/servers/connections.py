"""Knows every open connection and every running application of one server, and bounds both.

The servers tell it what begins and ends; it decides who is let in, whose time is up, and when a
drain is over. It writes to no socket itself: each connection knows how to close.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from skippy_site.servers.contract import ListenConfig
from skippy_site.servers.phases import ConnectionClock, Phase, phase_limits

_log = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 0.25
MAX_TURNED_AWAY = 128
"""Connections that are being told 503 at the same time; those beyond are closed without a word."""


class ServedConnection(Protocol):
    """One client connection, as a server adapter implements it."""

    clock: ConnectionClock
    stalled_since_ts: float | None

    def time_out(self) -> None:
        """The request did not arrive in time: answer 408 if that is possible, and close."""

    def close(self) -> None:
        """Close once what is written has left; no answer is being written."""

    def close_after_answer(self) -> None:
        """Take no further request: close now if none is in progress, else after its answer."""

    def abort(self) -> None:
        """Close at once."""


class Entrance(enum.Enum):
    """What to do with a new connection."""

    ADMITTED = "admitted"
    TURNED_AWAY = "turned away"
    """Tell it 503 and close. It is known to the sweep, so that it cannot stay."""
    DROPPED = "dropped"
    """Close without a word; it is not known."""


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    num_open: int
    num_waiting: int
    num_turned_away: int
    num_running: int
    max_connections: int
    is_draining: bool


class Connections:
    """All connections of one server. Used on the event loop only.

    At the limit, the connection that has idled longest between requests gives way to the new one;
    only when every connection is busy is the new one turned away. So idle clients, however many,
    cannot keep others out.
    """

    def __init__(self, config: ListenConfig, *, now: Callable[[], float] = time.monotonic) -> None:
        self._max_connections = config.max_connections
        self._stall_timeout_s = config.stall_timeout_s
        self._limits = phase_limits(config)
        self._now = now
        self._open: set[ServedConnection] = set()
        self._turned_away: set[ServedConnection] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.is_draining = False

    def new_clock(self) -> ConnectionClock:
        return ConnectionClock(self._limits, now=self._now)

    def next_entrance(self) -> Entrance:
        """What is to happen with the next connection; makes room for it if need be."""
        if not self._is_full() or self._close_one_waiting():
            return Entrance.ADMITTED
        return Entrance.DROPPED if len(self._turned_away) >= MAX_TURNED_AWAY else Entrance.TURNED_AWAY

    def enter(self, connection: ServedConnection, entrance: Entrance) -> None:
        """Register a connection that was admitted or turned away."""
        if entrance is Entrance.ADMITTED:
            self._open.add(connection)
        elif entrance is Entrance.TURNED_AWAY:
            self._turned_away.add(connection)

    def leave(self, connection: ServedConnection) -> None:
        """The connection is closed. Safe to call for one that never entered."""
        self._open.discard(connection)
        self._turned_away.discard(connection)
        self._changed.set()

    def track(self, task: asyncio.Task[None]) -> None:
        """An application runs in `task`."""
        self._running.add(task)
        task.add_done_callback(self._forget)

    def sweep(self) -> None:
        """Close whatever has been in its phase for too long, or stalled for too long."""
        now = self._now()
        for connection in [*self._open, *self._turned_away]:
            if now >= connection.clock.deadline_ts:
                self._end(connection)
            elif (
                connection.stalled_since_ts is not None
                and self._stall_timeout_s
                and now - connection.stalled_since_ts >= self._stall_timeout_s
            ):
                _log.info("a client has read nothing for %.0f s: aborted", self._stall_timeout_s)
                connection.abort()
        self._changed.set()

    async def keep_sweeping(self) -> None:
        """Sweep until cancelled. Deadlines are thus met within `SWEEP_INTERVAL_S`."""
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            try:
                self.sweep()
            except Exception:
                _log.exception("the sweep over connections failed")

    def begin_drain(self) -> None:
        """Idle connections close now, the others after the answer that they are waiting for."""
        self.is_draining = True
        for connection in list(self._open):
            connection.close_after_answer()

    def cancel_running(self) -> None:
        for task in list(self._running):
            task.cancel()

    def abort_all(self) -> None:
        for connection in [*self._open, *self._turned_away]:
            connection.abort()

    @property
    def is_idle(self) -> bool:
        """No application runs, and no request that was let in is still arriving."""
        return not self._running and not any(c.clock.phase is Phase.BODY for c in self._open)

    async def wait_until_idle(self) -> None:
        while not self.is_idle:
            await self._change()

    async def wait_until_closed(self) -> None:
        while self._open or self._turned_away:
            await self._change()

    def statistics(self) -> ConnectionStatistics:
        return ConnectionStatistics(
            num_open=len(self._open),
            num_waiting=sum(1 for c in self._open if c.clock.phase is Phase.WAITING),
            num_turned_away=len(self._turned_away),
            num_running=len(self._running),
            max_connections=self._max_connections,
            is_draining=self.is_draining,
        )

    def check_integrity(self) -> None:
        """Raises AssertionError when a bound or an exclusion is broken. For tests."""
        if self._num_staying() > self._max_connections or len(self._turned_away) > MAX_TURNED_AWAY:
            raise AssertionError(f"{self!r}: over its limit")
        if self._open & self._turned_away:
            raise AssertionError(f"{self!r}: admitted and turned away at once")
        if any(task.done() and not task.cancelled() and task.exception() for task in self._running):
            raise AssertionError(f"{self!r}: keeps a failed application")

    def __repr__(self) -> str:
        return (
            f"<Connections {len(self._open)}/{self._max_connections} open, "
            f"{len(self._turned_away)} turned away, {len(self._running)} running"
            f"{', draining' if self.is_draining else ''}>"
        )

    def _is_full(self) -> bool:
        if len(self._open) < self._max_connections:
            return False
        return self._num_staying() >= self._max_connections

    def _num_staying(self) -> int:
        """Open connections without those that are on their way out."""
        return sum(1 for connection in self._open if not connection.clock.is_closing)

    def _close_one_waiting(self) -> bool:
        waiting = [c for c in self._open if c.clock.phase is Phase.WAITING]
        if not waiting:
            return False
        min(waiting, key=lambda c: c.clock.since_ts).close()
        return True

    def _end(self, connection: ServedConnection) -> None:
        phase = connection.clock.phase
        if phase is Phase.WAITING:
            connection.close()
        elif connection.clock.is_closing:
            connection.abort()
        else:
            connection.time_out()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
