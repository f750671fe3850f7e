"""Makes the buckets of a time anew from the records, where something was wrong with them.

Everything that is added up from hours is then made anew from the hours: days and months, of keys, teams and
everybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from inference.domain.latency_histogram import BOUNDS_S, NUM_BUCKETS
from inference.domain.usage import full_hour
from inference.usage.aggregation import (
    ADD_UP,
    COUNTS,
    HISTOGRAMS,
    LOCK,
    PREPARE,
    RECORD_COLUMNS,
    RESUMMED,
    SPAN,
    SPAN_DIMENSIONS,
    parties_sql,
    spans_sql,
    value_of,
)

_REBUILD = f"""
WITH records AS (
    SELECT {RECORD_COLUMNS} FROM inference_generationrecord AS r
    WHERE r.created_at >= %(start)s AND r.created_at < %(end)s
        AND NOT date_trunc('hour', r.created_at, 'UTC') = ANY (%(kept)s::timestamptz[])
), {ADD_UP}
SELECT count(*) FROM records
"""  # noqa: S608

_OF_HOURS = (
    ("inference_usagebucket WHERE", "hour"),
    ("inference_teamusagebucket WHERE", "hour"),
    ("inference_teamlatencybucket WHERE", "hour"),
    ("inference_spanusage WHERE num_hours = 1 AND", "starts_at"),
    ("inference_spanlatency WHERE num_hours = 1 AND", "starts_at"),
)
_HOURS_WITH_TOO_FEW_RECORDS = """
SELECT hour FROM inference_usagebucket WHERE hour >= %(start)s AND hour < %(end)s
GROUP BY hour HAVING sum(num_requests) > (
    SELECT count(*) FROM inference_generationrecord AS r
    WHERE r.created_at >= hour AND r.created_at < hour + interval '1 hour'
) ORDER BY hour
"""


def _of_whole(unit: str, column: str) -> str:
    """What lies in the days or months that the range touches."""
    end = f"date_trunc('{unit}', %(end)s::timestamptz - interval '1 us', 'UTC')"
    return (
        f"{column} >= date_trunc('{unit}', %(start)s::timestamptz, 'UTC') "
        f"AND {column} < ({end} AT TIME ZONE 'UTC' + interval '1 {unit}') AT TIME ZONE 'UTC'"
    )


def _made_from(table: str, unit: str) -> str:
    return f"(SELECT * FROM inference_{table} WHERE {_of_whole(unit, 'hour')}) AS hours"  # noqa: S608


_SUMMED_HISTOGRAMS = ", ".join(
    f"ARRAY[{', '.join(f'sum({name}[{place}])::int' for place in range(1, NUM_BUCKETS + 1))}] AS {name}"
    for name in HISTOGRAMS
)
_SPAN_DAYS = spans_sql(
    RESUMMED,
    _made_from("teamusagebucket", "day"),
    "model, endpoint, outcome, reason, error_code",
    has_hours=False,
)
_SPAN_LATENCY_DAYS = spans_sql(
    _SUMMED_HISTOGRAMS, _made_from("teamlatencybucket", "day"), "model, endpoint", has_hours=False
)
# Days are made of hours, also of those that were kept; so are months.
_MAKE_SPANS_ANEW = (
    f"DELETE FROM inference_usageday WHERE {_of_whole('day', 'day')}",  # noqa: S608
    parties_sql("day", _made_from("usagebucket", "day")),
    f"DELETE FROM inference_usagemonth WHERE {_of_whole('month', 'month')}",  # noqa: S608
    parties_sql("month", _made_from("usagebucket", "month")),
    f"DELETE FROM inference_spanusage WHERE num_hours = 24 AND {_of_whole('day', 'starts_at')}",  # noqa: S608
    f"INSERT INTO inference_spanusage ({SPAN_DIMENSIONS}, {', '.join(COUNTS)}) {_SPAN_DAYS}",
    f"DELETE FROM inference_spanlatency WHERE num_hours = 24 AND {_of_whole('day', 'starts_at')}",  # noqa: S608
    f"INSERT INTO inference_spanlatency ({SPAN}, {', '.join(HISTOGRAMS)}) {_SPAN_LATENCY_DAYS}",
)


@dataclass(frozen=True, slots=True)
class RebuiltUsage:
    """What came of a rebuild. `kept_hours` were left alone: their records are not all there any more."""

    num_records: int
    kept_hours: tuple[datetime, ...]


def usage_rebuild(*, start_at: datetime, end_at: datetime) -> RebuiltUsage:
    """Make the buckets of the full hours from `start_at` to `end_at` (aware) anew from the records.

    Hours of which records are gone (retention) keep what they have. Waits for a running aggregation;
    who reads meanwhile sees the old numbers until all new ones are there.
    """
    bounds = {"start": full_hour(start_at), "end": full_hour(end_at)}
    with _session_lock(), transaction.atomic(), connection.cursor() as cursor:
        # One snapshot for all statements: a record that comes meanwhile stays pending and is not read.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute(PREPARE)
        cursor.execute(_HOURS_WITH_TOO_FEW_RECORDS, bounds)
        kept = [hour for (hour,) in cursor.fetchall()]
        given = {**bounds, "kept": kept, "bounds": list(BOUNDS_S)}
        for source, hour in _OF_HOURS:
            cursor.execute(
                f"DELETE FROM {source} {hour} >= %(start)s AND {hour} < %(end)s "  # noqa: S608
                f"AND NOT {hour} = ANY (%(kept)s::timestamptz[])",
                given,
            )
        cursor.execute(
            "DELETE FROM inference_usagepending WHERE created_at >= %(start)s AND created_at < %(end)s "
            "AND NOT date_trunc('hour', created_at, 'UTC') = ANY (%(kept)s::timestamptz[])",
            given,
        )
        cursor.execute(_REBUILD, given)
        num_records = int(value_of(cursor))
        for statement in _MAKE_SPANS_ANEW:
            cursor.execute(statement, bounds)
        return RebuiltUsage(num_records, tuple(kept))


@contextmanager
def _session_lock() -> Iterator[None]:
    """The lock of all aggregations, taken before the snapshot of a transaction is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
