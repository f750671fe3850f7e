from __future__ import annotations

import pytest

from skippy_site.supervisor.backoff import Backoff, RestartPolicy


def test_the_delay_doubles_up_to_the_cap() -> None:
    backoff = Backoff(RestartPolicy(max_failures=20))
    backoff.became_ready()

    delays = [backoff.failed(healthy_s=1.0) for _ in range(9)]

    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_minute_of_health_begins_anew() -> None:
    backoff = Backoff(RestartPolicy())
    backoff.became_ready()
    for _ in range(4):
        backoff.failed(healthy_s=59.9)

    assert backoff.failed(healthy_s=60.0) == 0.5
    assert backoff.num_failures == 1


def test_a_service_that_keeps_dying_is_given_up() -> None:
    backoff = Backoff(RestartPolicy(max_failures=6))
    backoff.became_ready()

    delays = [backoff.failed(healthy_s=0.0) for _ in range(6)]

    assert None not in delays[:5]
    assert delays[5] is None


def test_a_service_that_was_never_ready_is_given_up_sooner() -> None:
    backoff = Backoff(RestartPolicy(max_failures=6, max_failures_before_ready=3))

    assert [backoff.failed(healthy_s=0.0) for _ in range(3)] == [0.5, 1.0, None]


@pytest.mark.parametrize("healthy_s", [0.0, 3_600.0])
def test_the_first_failure_of_a_run_waits_half_a_second(healthy_s: float) -> None:
    backoff = Backoff(RestartPolicy())
    backoff.became_ready()

    assert backoff.failed(healthy_s=healthy_s) == 0.5
