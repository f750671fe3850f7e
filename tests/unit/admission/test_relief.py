import pytest

from inference.admission.relief import Level, Relief

BEFORE = Level(16, served_per_s=1000.0, p95_latency_s=2.0)


def descending(*, min_windows: int = 3) -> Relief:
    """One fewer than 16 is being tried."""
    relief = Relief(min_windows=min_windows, max_loss=0.03)
    for _ in range(min_windows):
        assert not relief.is_due
        relief.note_steady(BEFORE)
    assert relief.is_due
    relief.begin()
    assert not relief.is_due
    return relief


def judged(relief: Relief, *levels: Level) -> list[bool | None]:
    return [relief.judge(level) for level in levels]


def test_as_much_is_served_and_sooner_for_four_windows_then_it_is_kept_and_the_next_is_due():
    relief = descending()
    assert judged(relief, *[Level(15, 990.0, 1.88)] * 4) == [None, None, None, True]
    assert relief.is_due


def test_less_is_served_so_it_is_taken_back_as_soon_as_that_is_clear():
    assert judged(descending(), Level(15, 870.0, 1.5)) == [False]
    assert judged(descending(), Level(15, 900.0, 1.5), Level(15, 900.0, 1.5)) == [None, False]
    assert judged(descending(), *[Level(15, 965.0, 1.5)] * 4) == [None, None, None, False]


def test_latency_has_to_fall_as_it_does_where_lanes_share_what_there_is():
    assert judged(descending(), *[Level(15, 1000.0, 1.93)] * 4)[-1] is True
    assert judged(descending(), *[Level(15, 1000.0, 1.95)] * 4)[-1] is False


def test_each_step_of_a_descent_is_compared_with_where_it_began():
    relief = descending()
    assert judged(relief, *[Level(15, 980.0, 1.8)] * 4)[-1] is True
    relief.note_steady(Level(15, 980.0, 1.8))
    relief.begin()
    assert judged(relief, *[Level(14, 960.0, 1.7)] * 4)[-1] is False


def test_after_each_failure_in_a_row_the_next_attempt_waits_twice_as_long_up_to_eight_times():
    relief = descending(min_windows=2)
    waits = []
    for _ in range(5):
        assert judged(relief, Level(15, 1.0, 1.0)) == [False]
        num_windows = 0
        while not relief.is_due:
            relief.note_steady(BEFORE)
            num_windows += 1
        waits.append(num_windows)
        relief.begin()
    assert waits == [4, 8, 16, 16, 16]
    assert judged(relief, *[Level(15, 1000.0, 1.0)] * 4)[-1] is True
    relief.begin()
    relief.judge(Level(14, 1.0, 1.0))
    assert "of 4 windows" in repr(relief)


def test_what_is_forgotten_does_not_count():
    relief = Relief(min_windows=2, max_loss=0.03)
    relief.note_steady(BEFORE)
    relief.forget()
    relief.note_steady(BEFORE)
    assert not relief.is_due


@pytest.mark.parametrize("min_windows", [0, -1])
def test_it_can_be_turned_off(min_windows):
    assert not Relief(min_windows=min_windows, max_loss=0.03).is_enabled
