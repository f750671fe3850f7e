"""Slices of usage: whatever table answers, sums are those of the records, also where clocks change."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from inference.domain.latency_histogram import LatencyHistogram
from inference.domain.usage import BucketWidth, UsageRange, bucket_starts
from inference.models import GenerationRecord, ModelPrice
from inference.usage.aggregation import usage_aggregate
from inference.usage.breakdowns import (
    latencies_merged,
    slice_latencies,
    slice_overview,
    slice_parties,
    slice_totals,
)
from inference.usage.selectors import UsageOwner
from inference.usage.slices import UsageSlice
from tests.integration.usage.records import AT, record, save

pytestmark = pytest.mark.django_db(transaction=True)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def sliced(start: datetime = AT - DAY, end: datetime = AT + DAY, **rest: object) -> UsageSlice:
    return UsageSlice(UsageRange(start, end), **rest)


def whole(slice: UsageSlice):
    return slice_overview(slice=slice, starts=[slice.start_hour])


@pytest.mark.parametrize("is_counted", [False, True])
def test_every_table_has_the_sums_of_the_records(is_counted) -> None:
    made = [
        record(
            key_id=number % 5,
            user_id=number % 3,
            team_id=number % 2 or None,
            model=f"m{number % 2}",
            endpoint="completions" if number % 7 == 0 else "chat.completions",
            num_input_tokens=number,
            num_cached_tokens=number // 2,
            outcome="completed" if number % 4 else "backend_error",
            created_at=AT + number * HOUR,
        )
        for number in range(120)
    ]
    save(*made)
    if is_counted:
        usage_aggregate()
    for owner in (
        UsageOwner(),
        UsageOwner(team_id=1),
        UsageOwner(user_id=2),
        UsageOwner(key_id=4),
        UsageOwner(user_id=1, key_id=3),
    ):
        for more in ({}, {"model": "m1"}, {"endpoint": "completions"}):
            slice = sliced(AT + 3 * HOUR, AT + 100 * HOUR, owner=owner, **more)
            fits = [
                one
                for one in made
                if slice.start_hour <= one.created_at < slice.end_hour
                and all(getattr(one, name) == value for name, value in slice.columns.items())
            ]
            found, parties = whole(slice), slice_parties(slice=slice)
            assert found.totals == slice_totals(slice=slice)
            assert found.totals.num_requests == len(fits)
            assert found.totals.num_input_tokens == sum(one.num_input_tokens for one in fits)
            assert found.totals.num_unfinished == sum(one.outcome != "completed" for one in fits)
            for portions, name in (
                (found.models, "model"),
                (found.endpoints, "endpoint"),
                (parties.teams, "team_id"),
                (parties.users, "user_id"),
                (parties.keys, "key_id"),
            ):
                counted = {portion.value: portion.totals.num_requests for portion in portions}
                assert counted == Counter(getattr(one, name) for one in fits)
                cached = sum(portion.totals.num_cached_tokens for portion in portions)
                assert cached == sum(one.num_cached_tokens for one in fits)


@pytest.mark.parametrize(
    ("zone", "first", "last"),
    [
        ("Europe/Berlin", date(2026, 10, 23), date(2026, 10, 28)),  # 25 hours on the 25th
        ("Europe/Berlin", date(2027, 3, 26), date(2027, 3, 31)),  # 23 hours on the 28th
        ("America/Santiago", date(2026, 9, 4), date(2026, 9, 9)),  # no midnight on the 6th
        ("Asia/Kathmandu", date(2026, 10, 23), date(2026, 10, 28)),
        ("America/St_Johns", date(2026, 10, 30), date(2026, 11, 4)),  # 25 hours, begun at half past
        ("Australia/Lord_Howe", date(2026, 10, 2), date(2026, 10, 7)),  # half an hour less on the 4th
    ],
)
def test_days_add_up_where_clocks_change(zone, first, last) -> None:
    place = ZoneInfo(zone)
    at = datetime(first.year, first.month, first.day, tzinfo=UTC) - 2 * DAY
    made = [record(created_at=at + number * HOUR / 2) for number in range(2 * 24 * 10)]
    save(*made)
    usage_aggregate()
    start = datetime(first.year, first.month, first.day, tzinfo=place).astimezone(UTC)
    end = datetime(last.year, last.month, last.day, tzinfo=place).astimezone(UTC)
    ceil = timedelta(minutes=59)
    slice = sliced((start + ceil).replace(minute=0), (end + ceil).replace(minute=0))
    starts = bucket_starts(slice.start_hour, slice.end_hour, width=BucketWidth.DAY, zone=place)
    found = slice_overview(slice=slice, starts=starts)
    hours = Counter(
        one.created_at.replace(minute=0).astimezone(place).date()
        for one in made
        if slice.start_hour <= one.created_at < slice.end_hour
    )
    assert len(starts) == len(found.series) == (last - first).days
    assert [one.num_requests for one in found.series] == [hours[at.date()] for at in starts]
    assert found.totals.num_requests == sum(hours.values())
    if not zone.startswith(("Asia", "Australia")):
        assert set(hours.values()) >= {48, 50 if first.month == 10 else 46}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"])
def test_months_days_and_hours_tell_a_long_time_together(zone) -> None:
    """Over months in which prices and clocks change: of each table a part, and each record once."""
    place, start = ZoneInfo(zone), datetime(2026, 8, 17, 5, tzinfo=UTC)
    for starts_on, price in ((date(2026, 8, 1), 1), (date(2026, 10, 1), 3), (date(2026, 11, 12), 7)):
        ModelPrice.objects.create(model="tiny", starts_on=starts_on, input_price=price, output_price=price)
    made = [
        record(
            key_id=number % 3,
            team_id=number % 2 or None,
            num_input_tokens=number,
            created_at=start + 5 * number * HOUR,
        )
        for number in range(850)
    ]
    save(*made)
    usage_aggregate()

    def spend_of(rows: list[GenerationRecord]) -> float:
        prices = [3 if one.created_at >= datetime(2026, 10, 1, tzinfo=UTC) else 1 for one in rows]
        late = datetime(2026, 11, 12, tzinfo=UTC)
        prices = [7 if one.created_at >= late else price for one, price in zip(rows, prices, strict=True)]
        return sum(price * (one.num_input_tokens + 5) / 1e6 for price, one in zip(prices, rows, strict=True))

    for width in (BucketWidth.DAY, BucketWidth.MONTH):
        for owner in (UsageOwner(), UsageOwner(team_id=1), UsageOwner(key_id=2)):
            slice = sliced(start + 3 * DAY, start + 160 * DAY, owner=owner)
            starts = list(bucket_starts(slice.start_hour, slice.end_hour, width=width, zone=place))
            fits = [
                one
                for one in made
                if slice.start_hour <= one.created_at < slice.end_hour
                and all(getattr(one, name) == value for name, value in slice.columns.items())
            ]
            found, parties = slice_overview(slice=slice, starts=starts), slice_parties(slice=slice)
            by_bucket = Counter(bisect_right(starts, one.created_at) - 1 for one in fits)
            assert [one.num_requests for one in found.series] == [by_bucket[n] for n in range(len(starts))]
            measured = [sum(one.total.counts) for one in slice_latencies(slice=slice, starts=starts)]
            assert measured == [by_bucket[number] for number in range(len(starts))]
            for portions, name in ((parties.keys, "key_id"), (parties.teams, "team_id")):
                counted = {portion.value: portion.totals.num_requests for portion in portions}
                assert counted == Counter(getattr(one, name) for one in fits)
                assert sum(one.totals.spend for one in portions) == pytest.approx(spend_of(fits))
            assert slice_totals(slice=slice).spend == pytest.approx(spend_of(fits))


def test_how_requests_ended_is_told_by_its_kind() -> None:
    save(
        record(finish_reason="stop"),
        record(finish_reason="stop"),
        record(finish_reason="length"),
        record(outcome="rejected", rejection_reason="queue_full", error_code="server_overloaded"),
        record(outcome="rejected", error_code="model_not_found"),
        record(outcome="backend_error", error_code="generation_failed", finish_reason=""),
        record(outcome="interrupted"),
    )
    for is_counted in (False, True):
        if is_counted:
            usage_aggregate()
        found = whole(sliced())
        told = [
            {portion.value: portion.totals.num_requests for portion in portions}
            for portions in (found.finish_reasons, found.refusals, found.errors)
        ]
        assert told == [
            {"stop": 2, "length": 1},
            {"queue_full": 1, "model_not_found": 1},
            {"generation_failed": 1, "interrupted": 1},
        ]
        assert {one.value: one.totals.num_requests for one in found.outcomes} == {
            "completed": 3,
            "rejected": 2,
            "backend_error": 1,
            "interrupted": 1,
        }


def test_a_price_holds_from_its_day_to_the_next_ones() -> None:
    day = AT.date()
    for starts_on, price in ((day - DAY, 1), (day, 10)):
        ModelPrice.objects.create(
            model="tiny",
            starts_on=starts_on,
            input_price=price,
            cached_price=Decimal("0.5"),
            output_price=price * 2,
        )
    tokens = {"num_input_tokens": 3_000_000, "num_cached_tokens": 1_000_000, "num_output_tokens": 1_000_000}
    save(
        record(created_at=AT - 3 * DAY, **tokens),  # before there was a price
        record(created_at=AT - DAY, **tokens),
        record(created_at=AT, **tokens),
        record(created_at=AT, model="free", **tokens),
    )
    slice = sliced(AT - 5 * DAY, AT + DAY)
    for is_counted in (False, True):
        if is_counted:
            usage_aggregate()
        assert slice_totals(slice=slice).spend == pytest.approx((2 + 0.5 + 2) + (20 + 0.5 + 20))
        (key,) = slice_parties(slice=slice).keys
        assert key.totals.spend == whole(slice).totals.spend == pytest.approx(45)
    ModelPrice.objects.filter(starts_on=day).update(cached_price=None)
    assert slice_totals(slice=slice).spend == pytest.approx(4.5 + 50)


@pytest.mark.parametrize("owner", [UsageOwner(), UsageOwner(key_id=1)])
def test_latencies_are_those_of_the_records(owner) -> None:
    seconds = [0.01, 0.2, 0.2, 4.0]
    save(*(record(first_token_s=one, created_at=AT + place * DAY) for place, one in enumerate(seconds)))
    save(record(outcome="rejected", first_token_s=None, total_s=0.001))
    usage_aggregate()
    slice = sliced(AT, AT + 3 * DAY, owner=owner)
    starts = bucket_starts(slice.start_hour, slice.end_hour, width=BucketWidth.DAY, zone=ZoneInfo("UTC"))
    reports = slice_latencies(slice=slice, starts=starts)
    assert [one.first_token for one in reports] == [LatencyHistogram.of([one]) for one in seconds]
    assert latencies_merged(reports).first_token == LatencyHistogram.of(seconds)
    assert latencies_merged(reports).total == LatencyHistogram.of([0.5] * 4)


def test_nothing_is_nothing() -> None:
    slice = sliced()
    assert whole(slice).totals == slice_totals(slice=slice)
    assert whole(slice).models == slice_parties(slice=slice).keys == ()
    assert not GenerationRecord.objects.exists()
    assert latencies_merged(slice_latencies(slice=slice, starts=[AT])).total.num_latencies == 0
