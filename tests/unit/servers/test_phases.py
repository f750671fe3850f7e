from __future__ import annotations

import math

from skippy_site.servers.contract import ListenConfig
from skippy_site.servers.phases import ConnectionClock, Phase, phase_limits
from tests.unit.servers.connections_under_test import HandClock

CONFIG = ListenConfig(header_timeout_s=20, body_timeout_s=120, keep_alive_s=75, linger_s=5)


def make_clock() -> tuple[HandClock, ConnectionClock]:
    hand = HandClock()
    return hand, ConnectionClock(phase_limits(CONFIG), now=hand)


def test_a_new_connection_has_the_time_for_headers_to_say_anything() -> None:
    hand, clock = make_clock()
    assert clock.phase is Phase.WAITING
    assert clock.deadline_ts == hand.now_ts + 20


def test_each_phase_has_its_own_limit() -> None:
    hand, clock = make_clock()
    for phase, limit_s in [
        (Phase.HEADERS, 20),
        (Phase.BODY, 120),
        (Phase.ANSWERING, math.inf),
        (Phase.WAITING, 75),
        (Phase.LINGERING, 5),
    ]:
        hand.now_ts += 1
        clock.enter(phase)
        assert clock.deadline_ts == hand.now_ts + limit_s


def test_entering_the_same_phase_again_does_not_move_the_deadline() -> None:
    hand, clock = make_clock()
    clock.enter(Phase.HEADERS)
    deadline_ts = clock.deadline_ts
    hand.now_ts += 19
    clock.enter(Phase.HEADERS)
    assert clock.deadline_ts == deadline_ts


def test_zero_means_no_limit() -> None:
    assert phase_limits(ListenConfig(body_timeout_s=0))[Phase.BODY] == math.inf


def test_closing_phases_are_told_apart_from_the_others() -> None:
    _, clock = make_clock()
    for phase in Phase:
        clock.enter(phase)
        assert clock.is_closing == (phase in (Phase.FLUSHING, Phase.LINGERING))
    assert "lingering for 0.0 s" in repr(clock)
