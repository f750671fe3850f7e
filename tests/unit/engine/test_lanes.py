from __future__ import annotations

import pytest

from inference.engine.lanes import LanePool


def test_the_lowest_free_lane_comes_first() -> None:
    pool = LanePool(3)
    lanes = [pool.acquire() for _ in range(3)]
    assert [lane.index for lane in lanes if lane] == [0, 1, 2]
    assert pool.acquire() is None
    for lane in (lanes[2], lanes[0]):
        assert lane is not None
        lane.release()
    again = pool.acquire()
    assert again is not None
    assert again.index == 0
    pool.check_integrity()


def test_a_lane_is_given_back_once() -> None:
    pool = LanePool(2)
    lane, other = pool.acquire(), pool.acquire()
    assert lane is not None
    assert other is not None
    lane.release()
    taken = pool.acquire()
    lane.release()
    assert taken is not None
    assert taken.is_held
    assert pool.statistics.num_used == 2
    pool.check_integrity()


def test_it_describes_itself() -> None:
    pool = LanePool(4)
    pool.acquire()
    assert repr(pool) == "<LanePool 1 of 4 used>"
    assert pool.statistics.num_free == 3


def test_integrity_notices_a_lane_that_is_free_and_used() -> None:
    pool = LanePool(2)
    pool.acquire()
    pool._free.append(0)
    with pytest.raises(AssertionError):
        pool.check_integrity()


def test_a_pool_without_lanes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one lane"):
        LanePool(0)
