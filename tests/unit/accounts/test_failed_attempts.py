"""Trying out keys is slowed down by network, for a while, and never for good keys."""

from __future__ import annotations

import pytest

from accounts.api.failed_attempts import FailedAttempts


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attempts(clock: Clock) -> FailedAttempts:
    return FailedAttempts(max_attempts=3, window_s=60, max_networks=4, monotonic=clock)


def fail(attempts: FailedAttempts, address: str, times: int = 3) -> None:
    for _ in range(times):
        attempts.note_failed(address)


def test_after_so_many_the_rest_of_the_window_is_refused(attempts, clock) -> None:
    fail(attempts, "192.0.2.1", 2)
    assert attempts.wait_s("192.0.2.1", None) is None
    clock.now += 20.5
    fail(attempts, "192.0.2.1", 1)
    assert attempts.wait_s("192.0.2.1", "digest") == 40
    assert attempts.wait_s("192.0.2.2", "digest") is None
    clock.now += 39.6
    assert attempts.wait_s("192.0.2.1", "digest") is None


def test_a_key_that_was_good_lately_goes_on(attempts, clock) -> None:
    attempts.note_good("good")
    fail(attempts, "192.0.2.1")
    assert attempts.wait_s("192.0.2.1", "good") is None
    assert attempts.wait_s("192.0.2.1", "other") is not None


@pytest.mark.parametrize(
    ("failed", "asked", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("", "no address", True),
        ("192.0.2.1", "::1", False),
    ],
)
def test_what_counts_as_one_network(attempts, failed, asked, is_same) -> None:
    fail(attempts, failed)
    assert (attempts.wait_s(asked, None) is not None) == is_same


def test_it_holds_no_more_than_it_may(attempts) -> None:
    for number in range(50):
        fail(attempts, f"192.0.2.{number}", 1)
    assert attempts.statistics().num_networks == 4
    assert "4/4 networks" in repr(attempts)
    attempts.check_integrity()
