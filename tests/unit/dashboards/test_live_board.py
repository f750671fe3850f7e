"""The live page's board and socket: who waits always hears, and who reads slowly gets less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inference.dashboards.live import board as board_module
from inference.dashboards.live.board import LiveBoard, LiveSources
from inference.dashboards.live.seats import Dismissal, Dismissed, Seats, SeatsTaken
from inference.dashboards.live.snapshot import MAX_REQUESTS
from inference.dashboards.live.socket import (
    BOARD_FAILED,
    NOT_ALLOWED,
    NOTHING_READ,
    TRY_LATER,
    LiveSocket,
)
from inference.domain.clock import SystemClock
from inference.domain.errors import ServiceUnavailable
from inference.domain.live_requests import LiveRequestStatus
from inference.domain.maintenance import Maintenance
from inference.ledger.live_desk import LiveRequests
from inference.ledger.live_watch import LiveRequestsUnknown
from inference.telemetry.recent_events import RecentEvents
from tests.ledger_parts import summary

HEADERS = [(b"host", b"here"), (b"origin", b"http://here")]


class Watch:
    """What the board asks for the requests of all processes."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.found = LiveRequests((), 1, 0)
        self.num_closed = 0

    async def ask(self, *, max_requests: int) -> LiveRequests:
        if self.problem is not None:
            raise self.problem
        return self.found

    async def close(self) -> None:
        self.num_closed += 1


class Stage:
    """A board with all that it asks, ten times as fast."""

    def __init__(self, *, max_seats: int = 50) -> None:
        self.watch = Watch()
        self.rights = {"s"}
        self.rights_problem: Exception | None = None
        fleet = SimpleNamespace(rows=(), statuses=lambda: (), statistics=dict)
        clock = SystemClock()
        sources = LiveSources(
            fleet=cast(Any, fleet),
            recent=RecentEvents(clock),
            requests=self.watch,
            ask_rights=self.ask_rights,
            ask_maintenance=Maintenance,
            clock=clock,
        )
        self.board = LiveBoard(sources, Seats(max_seats))

    def ask_rights(self, sessions: Iterable[str]) -> set[str]:
        if self.rights_problem is not None:
            raise self.rights_problem
        return self.rights & set(sessions)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    async def called(call: Any) -> Any:
        return call()

    monkeypatch.setattr(board_module, "in_database", called)
    monkeypatch.setattr(board_module, "SNAPSHOT_EVERY_S", 0.1)
    monkeypatch.setattr(board_module, "RIGHTS_EVERY_S", 0.2)
    return Stage()


class Page:
    """The other side of one socket, which says that it has read as long as it reads."""

    def __init__(self, stage: Stage, *, reads: bool = True, session: str = "s", **options: Any) -> None:
        self.texts: list[str] = []
        self.codes: list[int] = []
        self.reads = reads
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._said.put_nowait({"type": "websocket.connect"})
        scope = {"cookies": {"sessionid": session}, "headers": HEADERS}
        self.task = asyncio.create_task(LiveSocket(stage.board, **options)(scope, self._said.get, self._got))

    async def _got(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.send":
            self.texts.append(message["text"])
            if self.reads:
                self._said.put_nowait({"type": "websocket.receive", "text": "read"})
        elif message["type"] == "websocket.close":
            self.codes.append(message["code"])

    async def after(self, num_texts: int) -> None:
        async with asyncio.timeout(10):
            while len(self.texts) < num_texts and not self.task.done():
                await asyncio.sleep(0.01)

    async def leave(self) -> None:
        self._said.put_nowait({"type": "websocket.disconnect"})
        await asyncio.wait_for(self.task, 10)


async def test_all_get_one_snapshot_and_nothing_is_held_when_the_last_one_leaves(stage: Stage) -> None:
    pages = [Page(stage) for _ in range(50)]
    for page in pages:
        await page.after(3)
    assert len({page.texts[1] for page in pages}) == 1, "made once for all"
    for page in pages:
        await page.leave()
    assert "0 viewers" in repr(stage.board)
    async with asyncio.timeout(5):
        while not stage.watch.num_closed:
            await asyncio.sleep(0.01)
    num_snapshots = stage.board.total_snapshots
    await asyncio.sleep(0.3)
    assert stage.board.total_snapshots == num_snapshots
    again = Page(stage)
    await again.after(2)
    await again.leave()
    assert again.codes == []


async def test_who_does_not_read_gets_three_and_is_closed_later_while_others_go_on(stage: Stage) -> None:
    slow, quick = Page(stage, reads=False, unread_limit_s=0.5), Page(stage)
    await asyncio.wait_for(slow.task, 10)
    assert (len(slow.texts), slow.codes) == (3, [NOTHING_READ])
    await quick.after(8)
    assert len(quick.texts) >= 8
    await quick.leave()


async def test_where_the_board_fails_everybody_is_told_and_the_next_one_starts_it_anew(stage: Stage) -> None:
    pages = [Page(stage), Page(stage, reads=False)]
    for page in pages:
        await page.after(3)
    stage.watch.problem = RuntimeError("a fault of ours")
    await asyncio.wait_for(asyncio.gather(*(page.task for page in pages[:1])), 10)
    assert pages[0].codes == [BOARD_FAILED]
    stage.watch.problem = None
    fresh = Page(stage)
    await fresh.after(3)
    assert len(fresh.texts) >= 3, "and it is not ended with those of the board before"
    pages[1].reads = True
    await pages[1].leave()
    await fresh.leave()


async def test_one_who_was_not_waiting_when_the_board_failed_is_told_too(stage: Stage) -> None:
    with stage.board.seat("s") as seat:
        await stage.board.next(seat)
        stage.watch.problem = RuntimeError("a fault of ours")
        await asyncio.sleep(0.4)
        with pytest.raises(Dismissed) as told:
            await asyncio.wait_for(stage.board.next(seat), 5)
    assert told.value.dismissal is Dismissal.BOARD_FAILED


async def test_a_right_that_ends_closes_its_sockets_alone(stage: Stage) -> None:
    stage.rights = {"s", "t"}
    leaving, staying = Page(stage), Page(stage, session="t")
    await staying.after(1)
    stage.rights = {"t"}
    await asyncio.wait_for(leaving.task, 10)
    assert leaving.codes == [NOT_ALLOWED]
    stage.rights_problem = ServiceUnavailable("away")
    await staying.after(len(staying.texts) + 5)
    assert staying.codes == [], "while the database is away nothing is taken from anybody"
    unknown = Page(stage)
    await asyncio.wait_for(unknown.task, 10)
    assert unknown.codes == [TRY_LATER]
    await staying.leave()


async def test_no_more_look_on_than_there_are_seats() -> None:
    seats = Seats(2)
    with seats.taken("a"), seats.taken("b"):
        with pytest.raises(SeatsTaken), seats.taken("c"):
            pytest.fail("there was a third")
        assert len(seats) == 2
    assert len(seats) == 0


@pytest.mark.parametrize("is_known", [True, False])
async def test_thousands_of_requests_make_no_larger_a_snapshot(stage: Stage, is_known: bool) -> None:
    odd = {"model": "\u202e\U0001f600" * 100, "username": "é" * 150, "key_name": "\0" * 100}
    told = [LiveRequestStatus.of(summary(f"r{number}", **odd)) for number in range(MAX_REQUESTS)]
    stage.watch.found = LiveRequests(tuple(told), 3, 1, 1800)
    if not is_known:
        stage.watch.problem = LiveRequestsUnknown("OperationalError")
    page = Page(stage)
    await page.after(1)
    await page.leave()
    assert len(page.texts[0].encode()) < 600_000
    snapshot = json.loads(page.texts[0])
    said = (snapshot["num_requests"], len(snapshot["requests"]), snapshot["num_servers"])
    assert said == ((2000, 200, 3) if is_known else (0, 0, 0))
    assert (snapshot["num_silent"], snapshot["is_complete"]) == (int(is_known), False)
    assert snapshot["is_known"] is is_known
