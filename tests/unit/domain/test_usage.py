from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from inference.domain.usage import BucketWidth, UsageRange, UsageTotals, bucket_bounds, full_hour

HOUR = timedelta(hours=1)


def hours(first: datetime, last: datetime) -> list[datetime]:
    return [first + number * HOUR for number in range(int((last - first) / HOUR))]


def test_a_day_has_as_many_hours_as_clocks_give_it():
    def num_hours(day: int, month: int) -> int:
        start, end = bucket_bounds(
            datetime(2026, month, day, 12, tzinfo=UTC), width=BucketWidth.DAY, zone=ZoneInfo("Europe/Berlin")
        )
        return int((end.astimezone(UTC) - start.astimezone(UTC)) / HOUR)

    assert num_hours(29, 3) == 23
    assert num_hours(25, 10) == 25
    assert num_hours(1, 7) == 24


@pytest.mark.parametrize("width", list(BucketWidth))
@pytest.mark.parametrize(
    "zone",
    [
        "UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Africa/Cairo", "Asia/Beirut",
        "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham", "Africa/Casablanca",
    ],
)  # fmt: skip
def test_every_hour_of_a_year_is_in_exactly_one_bucket_and_these_touch(zone, width):
    bounds = [
        bucket_bounds(hour, width=width, zone=ZoneInfo(zone))
        for hour in hours(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    ]
    distinct = list(dict.fromkeys(bounds))

    instants = [(start.astimezone(UTC), end.astimezone(UTC)) for start, end in distinct]
    assert instants == sorted(set(instants))
    assert all(one[1] == following[0] for one, following in pairwise(instants))
    for hour, (start, end) in zip(
        hours(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)), bounds, strict=True
    ):
        assert start.astimezone(UTC) <= hour < end.astimezone(UTC)


def test_the_two_hours_of_one_name_stay_two():
    zone = ZoneInfo("Europe/Berlin")
    first, second = (
        bucket_bounds(datetime(2026, 10, 25, hour, tzinfo=UTC), width=BucketWidth.HOUR, zone=zone)[0]
        for hour in (0, 1)
    )

    assert (first.hour, second.hour) == (2, 2)
    assert first.isoformat() != second.isoformat()


def test_a_month_ends_where_the_next_one_begins():
    start, end = bucket_bounds(
        datetime(2026, 12, 31, 23, tzinfo=UTC), width=BucketWidth.MONTH, zone=ZoneInfo("America/New_York")
    )

    assert start.isoformat() == "2026-12-01T00:00:00-05:00"
    assert end.isoformat() == "2027-01-01T00:00:00-05:00"


def test_a_range_counts_hours_as_a_whole():
    range = UsageRange(datetime(2026, 1, 1, 10, 20, tzinfo=UTC), datetime(2026, 1, 1, 12, 1, tzinfo=UTC))

    assert range.start_hour == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert range.end_hour == datetime(2026, 1, 1, 13, tzinfo=UTC)
    exact = UsageRange(None, datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert (exact.start_hour, exact.end_hour) == (None, datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert UsageRange().end_hour is None


def test_a_full_hour_is_one_in_utc():
    kathmandu = datetime(2026, 1, 1, 10, 20, tzinfo=ZoneInfo("Asia/Kathmandu"))

    assert full_hour(kathmandu) == datetime(2026, 1, 1, 4, tzinfo=UTC)


def test_totals_add_up():
    assert UsageTotals(1, 2, 3, 4, 5, 6) + UsageTotals(1, 1, 1, 1, 1, 1) == UsageTotals(2, 3, 4, 5, 6, 7)
    assert UsageTotals(1, 2, 3, 4, 5, 6).num_total_tokens == 6
