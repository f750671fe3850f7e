"""One snapshot a second, made while somebody looks on, and shared by all who do."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from inference.dashboards.live.snapshot import MAX_REQUESTS, LiveSnapshot, live_model, live_row
from inference.domain.clock import Clock
from inference.domain.maintenance import DEFAULT_MESSAGE, Maintenance
from inference.hosting.fleet import Fleet
from inference.ledger.database_calls import in_database
from inference.ledger.live_desk import LiveRequests
from inference.telemetry.recent_events import RecentEvents

_log = logging.getLogger(__name__)

SNAPSHOT_EVERY_S = 1.0
RIGHTS_EVERY_S = 3.0


@dataclass(frozen=True, slots=True)
class LiveSources:
    """`ask_requests` and `ask_rights` wait for the database, so each runs on a thread."""

    fleet: Fleet
    recent: RecentEvents
    ask_requests: Callable[[], LiveRequests]
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

    def __init__(self, sources: LiveSources) -> None:
        self._sources = sources
        self._viewers: Counter[str] = Counter()
        self._turn = _Turn()
        self._task: asyncio.Task[None] | None = None
        self.total_snapshots = 0

    async def may_watch(self, session: str) -> bool:
        return session in await in_database(partial(self._sources.ask_rights, [session]))

    def enter(self, session: str) -> None:
        self._viewers[session] += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def leave(self, session: str) -> None:
        self._viewers[session] -= 1
        self._viewers = +self._viewers
        if not self._viewers and self._task is not None:
            self._task.cancel()
            self._task = None

    def watches(self, session: str) -> bool:
        """Whether that session has still the right to, as far as was asked."""
        return session in self._viewers

    async def next(self) -> str:
        """The next snapshot, as JSON."""
        turn = self._turn
        await turn.is_there.wait()
        return turn.text

    async def _run(self) -> None:
        asked_ts = self._sources.clock.monotonic()
        while True:
            begun_ts = self._sources.clock.monotonic()
            if begun_ts - asked_ts >= RIGHTS_EVERY_S:
                asked_ts = begun_ts
                await self._ask_rights()
            text = await self._snapshot()
            turn, self._turn = self._turn, _Turn(text=text)
            turn.text = text
            turn.is_there.set()
            self.total_snapshots += 1
            await asyncio.sleep(max(0.1, SNAPSHOT_EVERY_S - (self._sources.clock.monotonic() - begun_ts)))

    async def _ask_rights(self) -> None:
        """While the database is away nobody can log out, and nothing is taken from anybody either."""
        asked = set(self._viewers)
        try:
            may = await in_database(partial(self._sources.ask_rights, asked))
        except Exception as problem:
            _log.debug("who may look on cannot be asked: %s", type(problem).__name__)
            return
        for session in asked - may:
            self._viewers.pop(session, None)

    async def _snapshot(self) -> str:
        try:
            found = await asyncio.to_thread(self._sources.ask_requests)
        except Exception as problem:
            _log.debug("what runs cannot be asked: %s", type(problem).__name__)
            found = LiveRequests((), 0, 1)
        fleet, recent = self._sources.fleet, self._sources.recent
        said = self._sources.ask_maintenance()
        held, statuses = fleet.statistics(), {status.row_id: status for status in fleet.statuses()}
        snapshot = LiveSnapshot(
            at=self._sources.clock.unix_time(),
            models=[live_model(row.id, statuses.get(row.row_id), held.get(row.id)) for row in fleet.rows],
            requests=[live_row(one) for one in found.requests[:MAX_REQUESTS]],
            num_requests=len(found.requests),
            num_servers=found.num_servers,
            is_complete=not found.num_silent,
            maintenance=(said.message or DEFAULT_MESSAGE) if said.is_on else "",
            decisions=recent.decisions(),
            events=recent.events(),
        )
        return msgspec.json.encode(snapshot).decode()

    def __repr__(self) -> str:
        return f"<LiveBoard {sum(self._viewers.values())} viewers, {self.total_snapshots} snapshots>"
