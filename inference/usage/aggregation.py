"""Adds records up by hours, each exactly once, whenever and however often it is asked to.

A record that no bucket has counted is named in `UsagePending` by a trigger, in the record's own
transaction. One statement takes such names away and adds their records to the buckets, so that a
record is counted once however late it comes, whatever is killed, and however many workers do this at
the same time (an advisory lock lets one through; the others have nothing to do).

`usage_rebuild` makes the buckets of a time anew from the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from inference.domain.latency_histogram import BOUNDS_S, NUM_BUCKETS
from inference.domain.usage import full_hour

# One aggregation at a time, whatever process it is in; any constant would do.
_LOCK = 0x51C5_0010
MAX_RECORDS_A_PASS = 200_000
"""Bounds the memory and the length of one transaction: about 2 s."""

# What is claimed is all that the planner cannot foresee: it expects ten records and would sort a hundred
# thousand on the disk, where a table of hashes in memory is enough.
_PREPARE = "SELECT set_config('work_mem', '64MB', true), set_config('enable_sort', 'off', true)"

_DIMENSIONS = "hour, key_id, user_id, team_id, model, endpoint, outcome, reason, error_code"
_TEAM_DIMENSIONS = "hour, team_id, model, endpoint, outcome, reason, error_code"
_LATENCY_DIMENSIONS = "hour, team_id, model, endpoint"
_DAY_DIMENSIONS = "day, key_id, user_id, team_id, model, endpoint"
_COUNTS = (
    "num_requests",
    "num_input_tokens",
    "num_cached_tokens",
    "num_output_tokens",
    "num_reasoning_tokens",
    "num_injected_tokens",
)
_DAY_COUNTS = (
    "num_requests",
    "num_unfinished",
    "num_input_tokens",
    "num_cached_tokens",
    "num_output_tokens",
)
_HISTOGRAMS = ("queue_counts", "first_token_counts", "per_token_counts", "total_counts")


def counts_sql(indexes: str) -> str:
    """An expression that makes an array of bucket numbers (nulls count nothing) into counts by bucket."""
    return f"inference_latency_counts({indexes}, {NUM_BUCKETS})"


def sum_sql(one: str, other: str) -> str:
    """An expression that adds two arrays of counts."""
    return f"ARRAY(SELECT a + b FROM unnest({one}, {other}) AS pair (a, b))"  # noqa: S608


# What tells a bucket's requests from others of their outcome.
REASON_SQL = "coalesce(nullif(r.rejection_reason, ''), r.finish_reason)"


_SUMS = ", ".join(["count(*) AS num_requests", *(f"sum({name}) AS {name}" for name in _COUNTS[1:])])
_LATENCIES = ", ".join(f"array_agg({one}) AS {one}" for one in ("queue", "first_token", "per_token", "total"))
_COUNTED = ", ".join(counts_sql(one) for one in ("queue", "first_token", "per_token", "total"))


def _added_sql(
    table: str, dimensions: str, grouped: str, *, has_counts: bool = True, has_histograms: bool = True
) -> str:
    """Rows of `grouped`, added to what the table has of the same dimensions."""
    counts, histograms = (_COUNTS if has_counts else ()), (_HISTOGRAMS if has_histograms else ())
    sums = [f"{name} = kept.{name} + excluded.{name}" for name in counts]
    sums += [f"{name} = {sum_sql(f'kept.{name}', f'excluded.{name}')}" for name in histograms]
    made = [*counts, *([_COUNTED] if has_histograms else [])]
    return f"""
    INSERT INTO {table} AS kept ({", ".join([dimensions, *counts, *histograms])})
    SELECT {", ".join([dimensions, *made])} FROM {grouped}
    ON CONFLICT ({dimensions}) DO UPDATE SET {", ".join(sums)}
"""  # noqa: S608 (names of our own, here and below)


def _days_sql(source: str) -> str:
    """The days of hours, which are rows of buckets."""
    return f"""
    INSERT INTO inference_usageday AS kept ({_DAY_DIMENSIONS}, {", ".join(_DAY_COUNTS)})
    SELECT date_trunc('day', hour, 'UTC') AS day, key_id, user_id, team_id, model, endpoint,
        sum(num_requests), coalesce(sum(num_requests) FILTER (WHERE outcome <> 'completed'), 0),
        sum(num_input_tokens), sum(num_cached_tokens), sum(num_output_tokens)
    FROM {source} GROUP BY {_DAY_DIMENSIONS}
    ON CONFLICT ({_DAY_DIMENSIONS}) DO UPDATE SET
        {", ".join(f"{name} = kept.{name} + excluded.{name}" for name in _DAY_COUNTS)}
"""  # noqa: S608


# Follows a WITH that has `records`, a relation of _RECORD_COLUMNS.
_ADD_UP = f"""
measured AS (
    SELECT date_trunc('hour', created_at, 'UTC') AS hour, key_id, user_id, team_id, model, endpoint, outcome,
        reason, error_code,
        num_input_tokens, num_cached_tokens, num_output_tokens, num_reasoning_tokens, num_injected_tokens,
        width_bucket(queue_s, %(bounds)s::float8[]) AS queue,
        width_bucket(first_token_s, %(bounds)s::float8[]) AS first_token,
        width_bucket(time_per_token_s, %(bounds)s::float8[]) AS per_token,
        width_bucket(total_s, %(bounds)s::float8[]) AS total
    FROM records
), grouped AS (
    SELECT {_DIMENSIONS}, {_SUMS}, {_LATENCIES} FROM measured GROUP BY {_DIMENSIONS}
), team_grouped AS (
    SELECT {_TEAM_DIMENSIONS}, {_SUMS} FROM measured GROUP BY {_TEAM_DIMENSIONS}
), latencies_grouped AS (
    SELECT {_LATENCY_DIMENSIONS}, {_LATENCIES} FROM measured WHERE outcome <> 'rejected'
    GROUP BY {_LATENCY_DIMENSIONS}
),
added AS ({_added_sql("inference_usagebucket", _DIMENSIONS, "grouped")}),
team_added AS (
    {_added_sql("inference_teamusagebucket", _TEAM_DIMENSIONS, "team_grouped", has_histograms=False)}
),
latencies_added AS (
    {_added_sql("inference_teamlatencybucket", _LATENCY_DIMENSIONS, "latencies_grouped", has_counts=False)}
),
days_added AS ({_days_sql("grouped")})
"""  # noqa: S608

_RECORD_COLUMNS = (
    "r.created_at, r.key_id, r.user_id, r.team_id, r.model, r.endpoint, r.outcome, "
    f"{REASON_SQL} AS reason, r.error_code, r.num_input_tokens, "
    "r.num_cached_tokens, r.num_output_tokens, r.num_reasoning_tokens, r.num_injected_tokens, "
    "r.queue_s, r.first_token_s, r.time_per_token_s, r.total_s"
)

_CLAIM = f"""
WITH claimed AS (
    DELETE FROM inference_usagepending WHERE id = ANY (ARRAY(
        SELECT id FROM inference_usagepending ORDER BY id LIMIT %(limit)s
    )) RETURNING record_id, created_at
), records AS (
    SELECT {_RECORD_COLUMNS} FROM claimed AS c
    JOIN inference_generationrecord AS r ON r.id = c.record_id AND r.created_at = c.created_at
), {_ADD_UP}
SELECT count(*) FROM claimed
"""  # noqa: S608

_REBUILD = f"""
WITH records AS (
    SELECT {_RECORD_COLUMNS} FROM inference_generationrecord AS r
    WHERE r.created_at >= %(start)s AND r.created_at < %(end)s
        AND NOT date_trunc('hour', r.created_at, 'UTC') = ANY (%(kept)s::timestamptz[])
), {_ADD_UP}
SELECT count(*) FROM records
"""  # noqa: S608

_TABLES_OF_HOURS = ("inference_usagebucket", "inference_teamusagebucket", "inference_teamlatencybucket")
_HOURS_WITH_TOO_FEW_RECORDS = """
SELECT hour FROM inference_usagebucket WHERE hour >= %(start)s AND hour < %(end)s
GROUP BY hour HAVING sum(num_requests) > (
    SELECT count(*) FROM inference_generationrecord AS r
    WHERE r.created_at >= hour AND r.created_at < hour + interval '1 hour'
) ORDER BY hour
"""

_FORGET_DAYS = """
DELETE FROM inference_usageday
WHERE day >= date_trunc('day', %(start)s::timestamptz, 'UTC') AND day < %(end)s
"""
_MAKE_DAYS = _days_sql(
    "(SELECT * FROM inference_usagebucket WHERE hour >= date_trunc('day', %(start)s::timestamptz, 'UTC') "
    "AND hour < date_trunc('day', %(end)s::timestamptz + interval '23 hours', 'UTC')) AS hours"
)


@dataclass(frozen=True, slots=True)
class RebuiltUsage:
    """What came of a rebuild. `kept_hours` were left alone: their records are not all there any more."""

    num_records: int
    kept_hours: tuple[datetime, ...]


def usage_aggregate(*, max_records: int = MAX_RECORDS_A_PASS) -> int:
    """Add all that is pending to the buckets, in passes of `max_records`; the number of records taken.

    Returns at once, with 0, while another process does the same.
    """
    num_taken = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
            if not _value(cursor):
                return num_taken
            cursor.execute(_PREPARE)
            cursor.execute(_CLAIM, {"limit": max_records, "bounds": list(BOUNDS_S)})
            num_claimed = int(_value(cursor))
        num_taken += num_claimed
        if num_claimed < max_records:
            return num_taken


def usage_rebuild(*, start_at: datetime, end_at: datetime) -> RebuiltUsage:
    """Make the buckets of the full hours from `start_at` to `end_at` (aware) anew from the records.

    Hours of which records are gone (retention) keep what they have. Waits for a running aggregation;
    who reads meanwhile sees the old numbers until all new ones are there.
    """
    bounds = {"start": full_hour(start_at), "end": full_hour(end_at)}
    with _session_lock(), transaction.atomic(), connection.cursor() as cursor:
        # One snapshot for all statements: a record that comes meanwhile stays pending and is not read.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute(_PREPARE)
        cursor.execute(_HOURS_WITH_TOO_FEW_RECORDS, bounds)
        kept = [hour for (hour,) in cursor.fetchall()]
        given = {**bounds, "kept": kept, "bounds": list(BOUNDS_S)}
        for table in _TABLES_OF_HOURS:
            cursor.execute(
                f"DELETE FROM {table} "  # noqa: S608
                "WHERE hour >= %(start)s AND hour < %(end)s AND NOT hour = ANY (%(kept)s::timestamptz[])",
                given,
            )
        cursor.execute(
            "DELETE FROM inference_usagepending WHERE created_at >= %(start)s AND created_at < %(end)s "
            "AND NOT date_trunc('hour', created_at, 'UTC') = ANY (%(kept)s::timestamptz[])",
            given,
        )
        cursor.execute(_REBUILD, given)
        num_records = int(_value(cursor))
        # Days are made of hours, also of those that were kept.
        cursor.execute(_FORGET_DAYS, bounds)
        cursor.execute(_MAKE_DAYS, bounds)
        return RebuiltUsage(num_records, tuple(kept))


@contextmanager
def _session_lock() -> Iterator[None]:
    """The lock of all aggregations, taken before the snapshot of a transaction is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def _value(cursor: object) -> int:
    row = cursor.fetchone()  # type: ignore[attr-defined]
    return row[0]  # type: ignore[no-any-return]
