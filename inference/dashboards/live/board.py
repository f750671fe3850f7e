"""One snapshot a second, made while somebody looks on, and shared by all who do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec

from inference.dashboards.live.seats import Dismissal, Seat, Seats
from inference.dashboards.live.snapshot import (
    MAX_REQUESTS,
    LiveSnapshot,
    RequestsOfAll,
    live_models,
    live_row,
    told_events,
)
from inference.domain.clock import Clock
from inference.domain.maintenance import DEFAULT_MESSAGE, Maintenance
from inference.hosting.fleet import Fleet
from inference.ledger.database_calls import in_database
from inference.ledger.live_desk import LiveRequests
from inference.ledger.live_watch import LiveRequestsUnknown
from inference.telemetry.recent_events import RecentEvents

_log = logging.getLogger(__name__)

SNAPSHOT_EVERY_S = 1.0
RIGHTS_EVERY_S = 3.0


class RequestWatch(Protocol):
    """`inference.ledger.live_watch.LiveWatch`."""

    async def ask(self, *, max_requests: int) -> LiveRequests: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LiveSources:
    """`ask_rights` waits for the database, so it runs on a thread."""

    fleet: Fleet
    recent: RecentEvents
    requests: RequestWatch
    ask_rights: Callable[[Iterable[str]], set[str]]
    ask_maintenance: Callable[[], Maintenance]
    clock: Clock


@dataclass(slots=True)
class _Turn:
    """What the viewers wait for next, and get all at once."""

    is_there: asyncio.Event = field(default_factory=asyncio.Event)
    text: str = ""


class LiveBoard:
    """For one event loop. Costs nothing while nobody looks on."""

    def __init__(self, sources: LiveSources, seats: Seats | None = None) -> None:
        self._sources = sources
        self._seats = Seats() if seats is None else seats
        self._turn = _Turn()
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self.total_snapshots = 0

    async def may_watch(self, session: str) -> bool:
        """Raises ServiceUnavailable where the database does not answer."""
        return session in await in_database(partial(self._sources.ask_rights, [session]))

    @contextmanager
    def seat(self, session: str) -> Iterator[Seat]:
        """A place for as long as the block lasts. Raises SeatsTaken."""
        try:
            with self._seats.taken(session) as seat:
                if self._task is None:
                    self._task = asyncio.create_task(self._run(self._ending))
                yield seat
        finally:
            if not self._seats and self._task is not None:
                self._task.cancel()
                self._ending, self._task = self._task, None

    async def next(self, seat: Seat) -> str:
        """The next snapshot, as JSON. Raises Dismissed where the seat was taken away."""
        seat.check()
        turn = self._turn
        await turn.is_there.wait()
        seat.check()
        return turn.text

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        """Whatever goes wrong here must be known to those who wait, who would wait for ever."""
        if before is not None:
            await asyncio.wait([before])
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tell())
                group.create_task(self._keep_asking_rights())
        except Exception:
            _log.exception("the live page's snapshots have ended")
            self._ending, self._task = self._task, None
            self._seats.dismiss(Dismissal.BOARD_FAILED)
            self._call("")
        finally:
            await self._sources.requests.close()

    async def _tell(self) -> None:
        clock = self._sources.clock
        while True:
            begun_ts = clock.monotonic()
            self._call(await self._snapshot())
            self.total_snapshots += 1
            await asyncio.sleep(max(0.1, SNAPSHOT_EVERY_S - (clock.monotonic() - begun_ts)))

    def _call(self, text: str) -> None:
        turn, self._turn = self._turn, _Turn()
        turn.text = text
        turn.is_there.set()

    async def _keep_asking_rights(self) -> None:
        """While the database is away nobody can log out, and nothing is taken from anybody either."""
        while True:
            await asyncio.sleep(RIGHTS_EVERY_S)
            asked = self._seats.sessions
            try:
                may = await in_database(partial(self._sources.ask_rights, asked))
            except Exception as problem:
                _log.debug("who may look on cannot be asked: %s", type(problem).__name__)
                continue
            self._seats.dismiss(Dismissal.NO_RIGHT, asked - may)

    async def _snapshot(self) -> str:
        """Made and written once, whoever looks on."""
        try:
            found = RequestsOfAll.of(await self._sources.requests.ask(max_requests=MAX_REQUESTS))
        except LiveRequestsUnknown as problem:
            _log.debug("what runs cannot be asked: %s", problem)
            found = RequestsOfAll()
        fleet, recent = self._sources.fleet, self._sources.recent
        said = self._sources.ask_maintenance()
        rows = fleet.rows
        snapshot = LiveSnapshot(
            at=self._sources.clock.unix_time(),
            models=live_models(rows, fleet.statuses(), fleet.statistics()),
            num_models=len(rows),
            requests=[live_row(one) for one in found.told],
            num_requests=found.num_requests,
            num_servers=found.num_servers,
            maintenance=(said.message or DEFAULT_MESSAGE) if said.is_on else "",
            num_silent=found.num_silent,
            is_complete=found.is_known and not found.num_silent,
            is_known=found.is_known,
            decisions=told_events(recent.decisions()),
            events=told_events(recent.events()),
        )
        return msgspec.json.encode(snapshot).decode()

    def __repr__(self) -> str:
        return f"<LiveBoard {len(self._seats)} viewers, {self.total_snapshots} snapshots>"
