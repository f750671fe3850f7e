import pytest

from inference.admission.return_schedule import MAX_BOOKED_S, ReturnSchedule


def test_the_first_is_told_the_wait_and_the_others_when_those_before_them_are_through():
    schedule = ReturnSchedule()
    told = [schedule.book(user_id=1, now_ts=100.0, wait_s=20.0, service_s=1.0) for _ in range(3)]
    # Half of the time is for newcomers.
    assert told == [20.0, 22.0, 24.0]
    assert schedule.book(user_id=1, now_ts=110.0, wait_s=5.0, service_s=1.0) == 16.0


def test_a_longer_wait_is_told_as_it_is():
    schedule = ReturnSchedule()
    schedule.book(user_id=1, now_ts=100.0, wait_s=1.0, service_s=1.0)
    assert schedule.book(user_id=1, now_ts=100.0, wait_s=50.0, service_s=1.0) == 50.0
    assert schedule.book(user_id=1, now_ts=500.0, wait_s=2.0, service_s=1.0) == 2.0


def test_once_nobody_waits_nothing_is_booked_any_more():
    schedule = ReturnSchedule()
    for _ in range(50):
        schedule.book(user_id=1, now_ts=100.0, wait_s=20.0, service_s=1.0)
    schedule.clear()
    assert schedule.book(user_id=1, now_ts=100.0, wait_s=20.0, service_s=1.0) == 20.0


def test_what_is_too_much_for_the_longest_time_is_spread_evenly_over_it():
    schedule = ReturnSchedule()
    while (told := schedule.book(user_id=1, now_ts=0.0, wait_s=20.0, service_s=1.0)) < MAX_BOOKED_S - 1:
        pass
    told = [schedule.book(user_id=1, now_ts=0.0, wait_s=20.0, service_s=1.0) for _ in range(1000)][1:]
    assert min(told) >= 20.0 and max(told) <= MAX_BOOKED_S
    for begin in range(20, 300, 28):
        assert sum(begin <= one < begin + 28 for one in told) == pytest.approx(100, abs=5)


def test_a_wait_beyond_the_longest_time_is_told_as_it_is():
    schedule = ReturnSchedule()
    assert schedule.book(user_id=1, now_ts=0.0, wait_s=900.0, service_s=1.0) == 900.0


def test_many_bookings_of_one_user_do_not_send_another_one_away_for_longer():
    schedule = ReturnSchedule()
    for _ in range(1000):
        schedule.book(user_id=1, now_ts=100.0, wait_s=20.0, service_s=1.0)
    # Behind as much of the first one's as it books itself.
    assert schedule.book(user_id=2, now_ts=100.0, wait_s=20.0, service_s=1.0) == 22.0
    assert schedule.book(user_id=2, now_ts=100.0, wait_s=20.0, service_s=1.0) == 26.0
    assert schedule.book(user_id=3, now_ts=100.0, wait_s=20.0, service_s=1.0) == 24.0


def test_different_users_are_told_to_come_back_one_after_the_other_too():
    schedule = ReturnSchedule()
    told = [schedule.book(user_id=user, now_ts=0.0, wait_s=20.0, service_s=1.0) for user in range(5)]
    assert told == [20.0, 22.0, 24.0, 26.0, 28.0]


def test_time_that_passes_takes_of_all_bookings_and_users_without_any_are_forgotten():
    schedule = ReturnSchedule()
    for user in (1, 1, 2):
        schedule.book(user_id=user, now_ts=0.0, wait_s=20.0, service_s=1.0)
    assert "6.0 s of 2 users" in repr(schedule)
    assert schedule.book(user_id=3, now_ts=3.0, wait_s=20.0, service_s=1.0) == pytest.approx(23.0)
    assert "5.0 s of 3 users" in repr(schedule)
    schedule.book(user_id=4, now_ts=300.0, wait_s=20.0, service_s=1.0)
    assert "2.0 s of 1 users" in repr(schedule)
