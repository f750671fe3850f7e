from datetime import UTC, datetime, timedelta

import pytest

from inference.domain.errors import InvalidRequest
from inference.domain.usage import BucketWidth
from inference.openai.usage_query import UsageFormat, UsageQuery, parse_usage_query

NOW = datetime(2026, 11, 29, 18, tzinfo=UTC)


def parsed(query: str) -> UsageQuery:
    return parse_usage_query(query, now=NOW)


def test_nothing_asked_for_is_everything():
    query = parsed("")

    assert (query.range.start_at, query.range.end_at, query.range.width) == (None, None, None)
    assert query.format is UsageFormat.JSON


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1769900400", datetime(2026, 1, 31, 23, tzinfo=UTC)),
        ("2026-01-31T23:00:00Z", datetime(2026, 1, 31, 23, tzinfo=UTC)),
        ("2026-02-01T00:00:00%2B01:00", datetime(2026, 1, 31, 23, tzinfo=UTC)),
        ("2026-02-01T00:00:00+01:00", datetime(2026, 1, 31, 23, tzinfo=UTC)),
        ("2026-02-01", datetime(2026, 1, 31, 23, tzinfo=UTC)),
        ("2026-02-01T00:00", datetime(2026, 1, 31, 23, tzinfo=UTC)),
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_instant_may_be_written_in_several_ways(text, expected):
    assert parsed(f"start={text}&time_zone=Europe/Berlin").range.start_at == expected


def test_everything_can_be_said_at_once():
    query = parsed("start=2026-01-01&end=2026-02-01&bucket=day&time_zone=America/New_York&format=csv")

    assert query.range.width is BucketWidth.DAY
    assert query.range.zone.key == "America/New_York"
    assert query.format is UsageFormat.CSV
    assert query.range.end_at - query.range.start_at == timedelta(days=31)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("start=yesterday", "start"),
        ("start=99999999999999999999", "start"),
        ("start=-5", "start"),
        ("start=0001-01-01", "start"),
        ("end=9999-12-31", "end"),
        ("end=2026-13-01", "end"),
        ("start=2026-01-02&end=2026-01-02", "end"),
        ("start=2026-01-02&end=2026-01-01", "end"),
        ("bucket=week", "bucket"),
        ("bucket=hour", "bucket"),
        ("bucket=hour&start=2020-01-01", "bucket"),
        ("time_zone=../../etc/passwd", "time_zone"),
        ("time_zone=Europe", "time_zone"),
        ("time_zone=%00", "time_zone"),
        ("time_zone=" + "x" * 5000, "time_zone"),
        ("format=xml", "format"),
        ("stat=2026-01-01", "stat"),
        ("start=2026-01-01&start=2026-01-02", "start"),
        ("%FF=1", None),
        ("start", None),
        ("&".join(f"a{n}=1" for n in range(50)), None),
    ],
)
def test_what_is_wrong_is_named(query, param):
    with pytest.raises(InvalidRequest) as refused:
        parsed(query)

    if param is not None:
        assert refused.value.param == param


def test_a_blank_parameter_is_one_that_was_not_given():
    assert parsed("start=&bucket=&format=&time_zone=") == parsed("")


def test_hours_of_a_year_can_be_had():
    assert parsed("bucket=hour&start=2025-11-29T18:00:00Z").range.width is BucketWidth.HOUR
