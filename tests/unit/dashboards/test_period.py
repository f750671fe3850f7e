"""Days of any zone follow each other without a gap, and compare with as much as has passed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from inference.dashboards.period import Period
from inference.domain.usage import BucketWidth

NOW = datetime(2027, 6, 1, 12, 30, tzinfo=UTC)
ZONES = ["UTC", "Europe/Berlin", "America/Santiago", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]


def period(first: date, last: date, zone: str = "UTC", now: datetime = NOW) -> Period:
    return Period(first, last, ZoneInfo(zone), now)


@pytest.mark.parametrize("zone", ZONES)
def test_days_follow_each_other_through_a_year(zone) -> None:
    day = date(2026, 1, 1)
    one = period(day, day, zone)
    while day < date(2027, 1, 2):
        day += timedelta(days=1)
        following = period(day, day, zone)
        assert following.start_at == one.end_at
        num_hours = (one.end_at - one.start_at) / timedelta(hours=1)
        assert num_hours in (23, 24, 25)
        # Where an offset is no whole hour, an edge may be an hour later than the next one's.
        assert len(one.starts) == num_hours
        assert sum(one.lengths_s()) == num_hours * 3600
        one = following


@pytest.mark.parametrize("zone", ZONES)
def test_the_days_of_a_month_are_its_days(zone) -> None:
    month = period(date(2026, 10, 1), date(2026, 10, 31), zone)
    assert month.width is BucketWidth.DAY
    assert [start.date() for start in month.starts] == [
        date(2026, 10, 1) + timedelta(days=number) for number in range(31)
    ]
    assert sum(month.lengths_s()) == (month.end_at - month.start_at).total_seconds()


def test_hours_that_come_twice_are_two() -> None:
    day = period(date(2026, 10, 25), date(2026, 10, 25), "Europe/Berlin")
    assert len(day.starts) == 25
    assert len({start.astimezone(UTC) for start in day.starts}) == 25
    assert set(day.lengths_s()) == {3600.0}


def test_today_ends_now_and_is_compared_with_as_much_of_yesterday() -> None:
    today = period(date(2027, 6, 1), date(2027, 6, 1))
    assert len(today.starts) == 13
    assert today.lengths_s()[-1] == 1800
    assert today.before().start_at == datetime(2027, 5, 31, tzinfo=UTC)
    assert today.before().end_at == datetime(2027, 5, 31, 13, tzinfo=UTC)


def test_what_is_over_is_compared_with_as_many_days_before() -> None:
    week = period(date(2027, 5, 1), date(2027, 5, 7), "Europe/Berlin")
    assert week.before().start_at == period(date(2027, 4, 24), date(2027, 4, 24), "Europe/Berlin").start_at
    assert week.before().end_at == week.start_at


def test_the_future_has_one_empty_hour() -> None:
    ahead = period(date(2030, 1, 1), date(2030, 1, 2))
    assert len(ahead.starts) == 1
    assert ahead.lengths_s() == (1.0,)
    assert ahead.before().start_at < ahead.before().end_at


def test_months_where_days_would_be_too_many() -> None:
    year = period(date(2026, 1, 15), date(2026, 12, 31))
    assert [year.label(start) for start in year.starts][:2] == ["January 2026", "February 2026"]
    assert len(year.starts) == 12


@pytest.mark.parametrize(
    ("first", "last"), [(date(2026, 1, 2), date(2026, 1, 1)), (date(2000, 1, 1), date(2026, 1, 1))]
)
def test_no_days_or_too_many_are_none(first, last) -> None:
    with pytest.raises(ValueError, match="a period has"):
        period(first, last)
