"""Adds records up by hours, each exactly once, whenever and however often it is asked to.

A record that no bucket has counted is named in `UsagePending` by a trigger, in the record's own
transaction. One statement takes such names away and adds their records to the buckets, so that a
record is counted once however late it comes, whatever is killed, and however many workers do this at
the same time (an advisory lock lets one through; the others have nothing to do).

`rebuild.py` makes the buckets of a time anew from the records.
"""

from __future__ import annotations

from django.db import connection, transaction

from inference.domain.latency_histogram import BOUNDS_S, NUM_BUCKETS

# One aggregation at a time, whatever process it is in; any constant would do.
LOCK = 0x51C5_0010
MAX_RECORDS_A_PASS = 200_000
"""Bounds the memory and the length of one transaction: about 2 s."""

# What is claimed is all that the planner cannot foresee: it expects ten records and would sort a hundred
# thousand on the disk, where a table of hashes in memory is enough.
PREPARE = "SELECT set_config('work_mem', '64MB', true), set_config('enable_sort', 'off', true)"

_DIMENSIONS = "hour, key_id, user_id, team_id, model, endpoint, outcome, reason, error_code"
_TEAM_DIMENSIONS = "hour, team_id, model, endpoint, outcome, reason, error_code"
_LATENCY_DIMENSIONS = "hour, team_id, model, endpoint"
SPAN = "num_hours, is_of_all, starts_at, team_id, model, endpoint"
SPAN_DIMENSIONS = f"{SPAN}, outcome, reason, error_code"
_PARTY_DIMENSIONS = "key_id, user_id, team_id, model, endpoint"
COUNTS = (
    "num_requests",
    "num_input_tokens",
    "num_cached_tokens",
    "num_output_tokens",
    "num_reasoning_tokens",
    "num_injected_tokens",
)
_PARTY_COUNTS = (
    "num_requests",
    "num_unfinished",
    "num_input_tokens",
    "num_cached_tokens",
    "num_output_tokens",
)
HISTOGRAMS = ("queue_counts", "first_token_counts", "per_token_counts", "total_counts")


def counts_sql(indexes: str) -> str:
    """An expression that makes an array of bucket numbers (nulls count nothing) into counts by bucket."""
    return f"inference_latency_counts({indexes}, {NUM_BUCKETS})"


def sum_sql(one: str, other: str) -> str:
    """An expression that adds two arrays of counts."""
    return f"ARRAY(SELECT a + b FROM unnest({one}, {other}) AS pair (a, b))"  # noqa: S608


# What tells a bucket's requests from others of their outcome.
REASON_SQL = "coalesce(nullif(r.rejection_reason, ''), r.finish_reason)"


_SUMS = ", ".join(["count(*) AS num_requests", *(f"sum({name}) AS {name}" for name in COUNTS[1:])])
RESUMMED = ", ".join(f"sum({name})::bigint AS {name}" for name in COUNTS)
_LATENCIES = ", ".join(f"array_agg({one}) AS {one}" for one in ("queue", "first_token", "per_token", "total"))
_COUNTED = ", ".join(counts_sql(one) for one in ("queue", "first_token", "per_token", "total"))


def _added_sql(
    table: str, dimensions: str, grouped: str, *, has_counts: bool = True, has_histograms: bool = True
) -> str:
    """Rows of `grouped`, added to what the table has of the same dimensions."""
    counts, histograms = (COUNTS if has_counts else ()), (HISTOGRAMS if has_histograms else ())
    sums = [f"{name} = kept.{name} + excluded.{name}" for name in counts]
    sums += [f"{name} = {sum_sql(f'kept.{name}', f'excluded.{name}')}" for name in histograms]
    made = [*counts, *([_COUNTED] if has_histograms else [])]
    # As the unique index has them: its pages are then visited once each, and not once for each row.
    order = "key_id, hour, user_id" if table == "inference_usagebucket" else dimensions
    return f"""
    INSERT INTO {table} AS kept ({", ".join([dimensions, *counts, *histograms])})
    SELECT {", ".join([dimensions, *made])} FROM {grouped} ORDER BY {order}
    ON CONFLICT ({dimensions}) DO UPDATE SET {", ".join(sums)}
"""  # noqa: S608 (names of our own, here and below)


def parties_sql(unit: str, source: str) -> str:
    """The days or months (`unit`) of hours, which are rows of buckets."""
    return f"""
    INSERT INTO inference_usage{unit} AS kept ({unit}, {_PARTY_DIMENSIONS}, {", ".join(_PARTY_COUNTS)})
    SELECT date_trunc('{unit}', hour, 'UTC') AS {unit}, {_PARTY_DIMENSIONS},
        sum(num_requests), coalesce(sum(num_requests) FILTER (WHERE outcome <> 'completed'), 0),
        sum(num_input_tokens), sum(num_cached_tokens), sum(num_output_tokens)
    FROM {source} GROUP BY {unit}, {_PARTY_DIMENSIONS} ORDER BY {unit}, {_PARTY_DIMENSIONS}
    ON CONFLICT ({unit}, {_PARTY_DIMENSIONS}) DO UPDATE SET
        {", ".join(f"{name} = kept.{name} + excluded.{name}" for name in _PARTY_COUNTS)}
"""  # noqa: S608


def spans_sql(columns: str, source: str, dimensions: str, *, has_hours: bool = True) -> str:
    """Rows of SpanUsage or SpanLatency from those of hours: a sum for each hour and day of all teams and
    for each day of a team. `dimensions` are what a row has beside its span and team."""
    hours = f"(hour, {dimensions}), " if has_hours else ""
    return f"""
    SELECT {"CASE WHEN GROUPING(hour) = 0 THEN 1 ELSE 24 END" if has_hours else "24"} AS num_hours,
        GROUPING(team_id) = 1 AS is_of_all, {"coalesce(hour, day)" if has_hours else "day"} AS starts_at,
        team_id, {dimensions}, {columns}
    FROM (SELECT *, date_trunc('day', hour, 'UTC') AS day FROM {source}) AS of_days
    GROUP BY GROUPING SETS ({hours}(day, {dimensions}), (day, team_id, {dimensions}))
"""  # noqa: S608


_LET_IN = "(SELECT * FROM measured WHERE outcome <> 'rejected') AS let_in"
# Follows a WITH that has `records`, a relation of RECORD_COLUMNS.
ADD_UP = f"""
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
), spans_grouped AS (
    {spans_sql(RESUMMED, "team_grouped", "model, endpoint, outcome, reason, error_code")}
), span_latencies_grouped AS (
    {spans_sql(_LATENCIES, _LET_IN, "model, endpoint")}
),
added AS ({_added_sql("inference_usagebucket", _DIMENSIONS, "grouped")}),
team_added AS (
    {_added_sql("inference_teamusagebucket", _TEAM_DIMENSIONS, "team_grouped", has_histograms=False)}
),
latencies_added AS (
    {_added_sql("inference_teamlatencybucket", _LATENCY_DIMENSIONS, "latencies_grouped", has_counts=False)}
),
spans_added AS (
    {_added_sql("inference_spanusage", SPAN_DIMENSIONS, "spans_grouped", has_histograms=False)}
),
span_latencies_added AS (
    {_added_sql("inference_spanlatency", SPAN, "span_latencies_grouped", has_counts=False)}
),
days_added AS ({parties_sql("day", "grouped")}),
months_added AS ({parties_sql("month", "grouped")})
"""  # noqa: S608

RECORD_COLUMNS = (
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
    SELECT {RECORD_COLUMNS} FROM claimed AS c
    JOIN inference_generationrecord AS r ON r.id = c.record_id AND r.created_at = c.created_at
), {ADD_UP}
SELECT count(*) FROM claimed
"""  # noqa: S608


def usage_aggregate(*, max_records: int = MAX_RECORDS_A_PASS) -> int:
    """Add all that is pending to the buckets, in passes of `max_records`; the number of records taken.

    Returns at once, with 0, while another process does the same.
    """
    num_taken = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
            if not value_of(cursor):
                return num_taken
            cursor.execute(PREPARE)
            cursor.execute(_CLAIM, {"limit": max_records, "bounds": list(BOUNDS_S)})
            num_claimed = int(value_of(cursor))
        num_taken += num_claimed
        if num_claimed < max_records:
            return num_taken


def value_of(cursor: object) -> int:
    row = cursor.fetchone()  # type: ignore[attr-defined]
    return row[0]  # type: ignore[no-any-return]
