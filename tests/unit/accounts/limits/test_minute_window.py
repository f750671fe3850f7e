"""A limit holds in any sixty seconds, not only in calendar minutes."""

from __future__ import annotations

import pytest

from accounts.limits.minute_window import MinuteWindow


def test_what_was_counted_counts_for_a_minute_and_never_less() -> None:
    window = MinuteWindow()
    window.add(100.0, num_requests=1, num_tokens=5)
    window.add(100.9, num_requests=1, num_tokens=6)
    window.forget(160.9)
    assert (window.num_requests, window.num_tokens) == (2, 11)
    window.forget(161.0)
    assert (window.num_requests, window.num_tokens) == (0, 0)


def test_waiting_as_long_as_it_says_is_enough_and_less_is_not() -> None:
    window = MinuteWindow()
    for at in (100.0, 110.5, 120.0):
        window.add(at, num_requests=1, num_tokens=10)
    now = 125.0
    wait_s = window.wait_for_tokens(now, excess=11)
    window.forget(now + wait_s - 0.001)
    assert window.num_tokens == 20
    window.forget(now + wait_s)
    assert window.num_tokens == 10
    assert window.wait_for_requests(now, excess=1) == window.reset_s(now) == pytest.approx(56.0)


def test_more_than_there_is_waits_a_whole_minute() -> None:
    window = MinuteWindow()
    window.add(100.0, num_requests=1, num_tokens=10)
    assert window.wait_for_tokens(100.0, excess=11) == 60.0


def test_corrections_go_where_it_was_counted_and_never_below_nothing() -> None:
    window = MinuteWindow()
    slot = window.add(100.0, num_requests=1, num_tokens=10)
    window.add(105.0, num_tokens=7)
    window.correct(slot, num_requests=-5, num_tokens=-20)
    window.correct(slot + 1, num_tokens=3)
    assert (window.num_requests, window.num_tokens) == (0, 7)


def test_a_clock_that_goes_backwards_loses_nothing() -> None:
    window = MinuteWindow()
    window.add(100.0, num_tokens=1)
    window.add(90.0, num_tokens=2)
    window.add(100.5, num_tokens=4)
    assert window.num_tokens == 7
    window.forget(151.0)
    assert window.num_tokens == 5


def test_it_comes_back_as_it_was_stored_and_stays_small() -> None:
    window = MinuteWindow()
    for tenth in range(2000):
        window.forget(tenth / 10)
        window.add(tenth / 10, num_requests=1, num_tokens=2)
    numbers = window.numbers()
    assert len(numbers) <= 3 * 61
    assert MinuteWindow.from_numbers(numbers).numbers() == numbers
    assert MinuteWindow().reset_s(5.0) == 0.0
