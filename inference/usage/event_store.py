"""Events of telemetry in the database: for a look back without a collector, and added up by hours.

They may be lost, unlike records, so they are written by telemetry's own thread, many at once, and a
database that is away costs a batch and not a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from django.db import close_old_connections, connection, transaction

from inference.domain.latency_histogram import BOUNDS_S
from inference.domain.telemetry_event import NS_PER_S, TelemetryEvent
from inference.usage.aggregation import counts_sql, sum_sql

MAX_EVENTS_A_PASS = 50_000
MAX_TEXT = 200
"""Longer values of attributes are cut: they are codes and names, unless somebody plays with us."""

# What tells events of one name apart: how it ended, or why.
_DETAIL = "left(coalesce({}, ''), 100)".format(
    ", ".join(
        f"attributes->>'{name}'"
        for name in (
            "skippy.request.outcome",
            "llama_stage.generation_admission_error",
            "skippy.stream.outcome",
            "llama_stage.generation_concurrency_reason",
        )
    )
)

_AGGREGATE = f"""
WITH claimed AS (
    UPDATE inference_storedevent SET is_aggregated = true WHERE id = ANY (ARRAY(
        SELECT id FROM inference_storedevent WHERE NOT is_aggregated
        ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )) RETURNING date_trunc('hour', at, 'UTC') AS hour, name, {_DETAIL} AS detail,
        width_bucket(elapsed_s, %(bounds)s::float8[]) AS elapsed
), grouped AS (
    SELECT hour, name, detail, count(*) AS num_events, array_agg(elapsed) AS elapsed
    FROM claimed GROUP BY hour, name, detail
), added AS (
    INSERT INTO inference_eventbucket AS kept (hour, name, detail, num_events, elapsed_counts)
    SELECT hour, name, detail, num_events, {counts_sql("elapsed")} FROM grouped
    ORDER BY hour, name, detail
    ON CONFLICT (hour, name, detail) DO UPDATE SET
        num_events = kept.num_events + excluded.num_events,
        elapsed_counts = {sum_sql("kept.elapsed_counts", "excluded.elapsed_counts")}
)
SELECT count(*) FROM claimed
"""  # noqa: S608 (names of our own)


# One JSON array for a whole batch: rows of Django's would take half a millisecond of the interpreter
# for each refusal of a service that has too much to do.
_INSERT = """
INSERT INTO inference_storedevent (at, name, request_id, elapsed_s, attributes, is_aggregated)
SELECT at, name, request_id, elapsed_s, attributes, false FROM jsonb_to_recordset(%s::jsonb)
    AS event (at timestamptz, name text, request_id text, elapsed_s float8, attributes jsonb)
"""


class DatabaseSink:
    """A sink of telemetry. Its thread has a connection for the length of a batch."""

    name = "database"
    gather_s = 0.5

    def deliver(self, batch: Sequence[TelemetryEvent]) -> None:
        close_old_connections()
        try:
            with connection.cursor() as cursor:
                cursor.execute(_INSERT, [orjson.dumps([_row(event) for event in batch]).decode()])
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing is held between batches."""


def events_aggregate(*, max_events: int = MAX_EVENTS_A_PASS) -> int:
    """Add all events that were not counted yet to their hours; how many there were. Others may do the
    same at the same time: each event is claimed by one."""
    num_taken = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_AGGREGATE, {"limit": max_events, "bounds": list(BOUNDS_S)})
            num_claimed: int = cursor.fetchone()[0]
        num_taken += num_claimed
        if num_claimed < max_events:
            return num_taken


def _row(event: TelemetryEvent) -> dict[str, Any]:
    """By column. No text has a NUL, which Postgres would refuse."""
    return {
        "at": datetime.fromtimestamp(event.end_unix_ns / NS_PER_S, UTC),
        "name": event.name[:100],
        "request_id": event.request_id[:64].replace("\0", ""),
        "elapsed_s": event.elapsed_s,
        "attributes": {
            name: value.replace("\0", "")[:MAX_TEXT] if isinstance(value, str) else value
            for name, value in event.attributes
        },
    }
