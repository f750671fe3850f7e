from __future__ import annotations

from dataclasses import replace

from inference.engine.lanes import LaneStatistics
from inference.engine.stats import EngineStatistics
from inference.engine.watchdog import SLOW_STEP_FACTOR, Stall, Watchdog

BUSY = EngineStatistics(
    is_alive=True, lanes=LaneStatistics(num_lanes=4, num_used=2), num_decoding=1, num_prefilling=1
)


def watch(dog: Watchdog, statistics: EngineStatistics, begin_ts: int, end_ts: int) -> list[Stall]:
    """A look every second at something that does not change."""
    looks = [dog.observe(statistics, float(now_ts)) for now_ts in range(begin_ts, end_ts + 1)]
    return [look for look in looks if look is not None]


def test_work_without_steps_is_a_stall_after_the_limit() -> None:
    dog = Watchdog(30.0)
    assert not watch(dog, BUSY, 0, 29)
    (stall,) = watch(dog, BUSY, 30, 30)
    assert stall.stalled_s == 30
    assert "1 prefilling, 1 decoding" in str(stall)
    assert "2 of 4 lanes" in str(stall)


def test_a_step_that_ends_begins_anew() -> None:
    dog = Watchdog(30.0)
    for round_number in range(5):
        moved = replace(BUSY, total_steps=round_number)
        assert not watch(dog, moved, 29 * round_number, 29 * round_number + 28)


def test_turns_without_steps_are_no_progress_while_there_is_work() -> None:
    dog = Watchdog(10.0)
    looks = [dog.observe(replace(BUSY, total_turns=second), float(second)) for second in range(20)]
    assert looks[9] is None
    assert looks[10] is not None


def test_an_idle_engine_that_turns_is_well_and_one_that_does_not_is_stuck() -> None:
    idle = replace(BUSY, num_decoding=0, num_prefilling=0)
    dog = Watchdog(10.0)
    assert not [
        one for second in range(60) if (one := dog.observe(replace(idle, total_turns=second), second))
    ]
    assert watch(Watchdog(10.0), idle, 0, 10)


def test_those_who_wait_for_something_are_not_late() -> None:
    waiting = replace(BUSY, num_decoding=0, num_prefilling=0, num_preempted=1, num_waiting_for_prefix=1)
    dog = Watchdog(10.0)
    assert not [
        one for second in range(60) if (one := dog.observe(replace(waiting, total_turns=second), second))
    ]


def test_where_steps_are_slow_patience_is_longer() -> None:
    slow = replace(BUSY, total_steps=3, max_step_s=20.0)
    dog = Watchdog(30.0)
    assert not watch(dog, slow, 0, int(SLOW_STEP_FACTOR * 20) - 1)
    (stall,) = watch(dog, slow, int(SLOW_STEP_FACTOR * 20), int(SLOW_STEP_FACTOR * 20))
    assert stall.allowed_s == SLOW_STEP_FACTOR * 20


def test_time_in_which_nobody_looked_counts_little() -> None:
    """The process was stopped for an hour: the engine could not move either."""
    dog = Watchdog(30.0)
    watch(dog, BUSY, 0, 10)
    assert dog.observe(BUSY, 3600.0) is None
    assert dog.observe(BUSY, 3601.0) is None
    assert watch(dog, BUSY, 3602, 3630)


def test_a_clock_that_goes_back_does_no_harm() -> None:
    dog = Watchdog(5.0)
    for now_ts in (10.0, 4.0, 3.0, 2.0):
        assert dog.observe(BUSY, now_ts) is None


def test_zero_is_no_watch_and_the_dead_are_left_alone() -> None:
    assert not watch(Watchdog(0.0), BUSY, 0, 500)
    assert not watch(Watchdog(5.0), replace(BUSY, is_alive=False), 0, 500)


def test_an_engine_that_comes_to_life_has_its_full_time() -> None:
    dog = Watchdog(10.0)
    watch(dog, replace(BUSY, is_alive=False), 0, 100)
    assert not watch(dog, BUSY, 101, 110)
    assert watch(dog, BUSY, 111, 111)
