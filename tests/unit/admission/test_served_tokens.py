import pytest

from inference.admission.served_tokens import ServedTokens


def test_what_was_served_is_halved_every_minute():
    served = ServedTokens()
    served.begin(1, 100, now_ts=0.0)
    served.end(1, num_expected=100, num_served=80, now_ts=0.0)

    assert served.total(1, 0.0) == 80
    assert served.total(1, 60.0) == pytest.approx(40)
    assert served.total(1, 180.0) == pytest.approx(10)
    assert served.total(2, 0.0) == 0


def test_what_runs_counts_as_expected_from_the_start_and_does_not_fade():
    served = ServedTokens()
    served.begin(1, 100, now_ts=0.0)
    served.begin(1, 50, now_ts=0.0)
    assert served.total(1, 600.0) == 150

    served.end(1, num_expected=100, num_served=3, now_ts=600.0)
    assert served.total(1, 600.0) == 53


def test_users_who_have_faded_are_forgotten():
    served = ServedTokens()
    for user_id in range(1000):
        served.begin(user_id, 10, now_ts=0.0)
        served.end(user_id, num_expected=10, num_served=10, now_ts=0.0)
    served.begin(7, 10, now_ts=3600.0)
    for turn in range(1000):
        served.begin(-1, 10, now_ts=3600.0 + turn)
        served.end(-1, num_expected=10, num_served=10, now_ts=3600.0 + turn)

    assert len(served) == 2  # who runs, and who was just served
    assert served.total(7, 3600.0) == pytest.approx(10)
