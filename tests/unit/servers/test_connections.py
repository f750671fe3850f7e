from __future__ import annotations

import asyncio

import pytest

from skippy_site.servers import connections as module
from skippy_site.servers.connections import Entrance
from skippy_site.servers.phases import Phase
from tests.unit.servers.connections_under_test import FakeConnection, HandClock, admit, make_connections


def test_at_the_limit_the_one_that_waited_longest_gives_way() -> None:
    clock = HandClock()
    connections = make_connections(clock, max_connections=3)
    busy = admit(connections, Phase.ANSWERING)
    clock.now_ts += 1
    oldest = admit(connections)
    clock.now_ts += 1
    admit(connections)
    admit(connections)
    assert (busy.told, oldest.told) == ([], ["close"])


def test_when_all_are_busy_the_newcomer_is_turned_away_and_then_dropped() -> None:
    clock = HandClock()
    connections = make_connections(clock, max_connections=2)
    for phase in (Phase.HEADERS, Phase.BODY):
        admit(connections, phase)
    for _ in range(module.MAX_TURNED_AWAY):
        entrance = connections.next_entrance()
        assert entrance is Entrance.TURNED_AWAY
        connections.enter(FakeConnection(connections), entrance)
    assert connections.next_entrance() is Entrance.DROPPED
    connections.check_integrity()
    assert connections.statistics().num_turned_away == module.MAX_TURNED_AWAY


def test_those_on_their_way_out_do_not_count() -> None:
    clock = HandClock()
    connections = make_connections(clock, max_connections=1)
    admit(connections, Phase.FLUSHING)
    admit(connections, Phase.ANSWERING)
    assert connections.next_entrance() is Entrance.TURNED_AWAY


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        (Phase.WAITING, "close"),
        (Phase.HEADERS, "time_out"),
        (Phase.BODY, "time_out"),
        (Phase.FLUSHING, "abort"),
        (Phase.LINGERING, "abort"),
    ],
)
def test_the_sweep_ends_each_phase_in_its_own_way(phase: Phase, told: str) -> None:
    clock = HandClock()
    connections = make_connections(clock)
    connection = admit(connections, phase)
    clock.now_ts = connection.clock.deadline_ts - 0.01
    connections.sweep()
    assert connection.told == []
    clock.now_ts += 0.02
    connections.sweep()
    assert connection.told == [told]


def test_a_long_answer_is_left_alone_but_a_long_stall_is_not() -> None:
    clock = HandClock()
    connections = make_connections(clock, stall_timeout_s=60)
    connection = admit(connections, Phase.ANSWERING)
    clock.now_ts += 100_000
    connections.sweep()
    assert connection.told == []
    connection.stalled_since_ts = clock.now_ts - 60
    connections.sweep()
    assert connection.told == ["abort"]
    assert connections.statistics().num_open == 0


def test_a_drain_tells_everybody_once() -> None:
    connections = make_connections(HandClock())
    some = [admit(connections, phase) for phase in (Phase.WAITING, Phase.ANSWERING)]
    connections.begin_drain()
    assert [connection.told for connection in some] == [["close_after_answer"]] * 2
    assert connections.is_draining
    assert "draining" in repr(connections)


async def test_idle_means_no_application_and_no_body_on_its_way() -> None:
    connections = make_connections(HandClock())
    uploading = admit(connections, Phase.BODY)
    answer = asyncio.create_task(asyncio.sleep(3600))
    connections.track(answer)
    waiting = asyncio.create_task(connections.wait_until_idle())
    await asyncio.sleep(0)
    connections.cancel_running()
    await asyncio.wait([answer])
    await asyncio.sleep(0)
    assert not waiting.done()
    uploading.clock.enter(Phase.FLUSHING)
    connections.sweep()
    await asyncio.wait_for(waiting, 1)
    assert connections.is_idle
    assert connections.statistics().num_running == 0


async def test_waiting_for_the_last_to_leave() -> None:
    connections = make_connections(HandClock())
    for _ in range(3):
        admit(connections, Phase.ANSWERING)
    waiting = asyncio.create_task(connections.wait_until_closed())
    await asyncio.sleep(0)
    assert not waiting.done()
    connections.abort_all()
    await asyncio.wait_for(waiting, 1)
