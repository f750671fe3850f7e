"""Forgets what is older than it has to be kept, a little at a time.

One DELETE of millions of rows holds its locks and bloats its table for as long as it takes, and begins
anew when it is cut off. So rows go in batches, each a transaction of its own, and records by whole months:
dropping a partition costs nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from inference.ledger.partitions import TABLE, Month
from inference.usage.aggregation import usage_aggregate

MAX_ROWS_A_BATCH = 5_000
_LOCK_WAIT = "3s"


def events_expire(*, older_than: timedelta, batch_size: int = MAX_ROWS_A_BATCH) -> int:
    """Delete events of telemetry, their hourly counts stay; how many."""
    return _delete_before("inference_storedevent", "at", timezone.now() - older_than, batch_size)


def usage_expire(*, older_than: timedelta, batch_size: int = MAX_ROWS_A_BATCH) -> int:
    """Delete hours, days and months of usage, and hours of events; how many. By whole months, so that what
    is left of each adds up to the same."""
    until = Month.of(timezone.now() - older_than).start
    return sum(
        _delete_before(table, column, until, batch_size)
        for table, column in (
            ("inference_usagebucket", "hour"),
            ("inference_teamusagebucket", "hour"),
            ("inference_teamlatencybucket", "hour"),
            ("inference_spanusage", "starts_at"),
            ("inference_spanlatency", "starts_at"),
            ("inference_usageday", "day"),
            ("inference_usagemonth", "month"),
            ("inference_eventbucket", "hour"),
        )
    )


def records_expire(*, older_than: timedelta) -> list[str]:
    """Drop the months of records that lie wholly before that; the names of what was dropped.

    What is in them is counted first. A month with records that are not is kept until the next time, and so
    is one that somebody reads for longer than 3 s: who drops it would make every new request wait.
    """
    usage_aggregate()
    until = timezone.now() - older_than
    dropped: list[str] = []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [TABLE]
        )
        partitions = {name for (name,) in cursor.fetchall()}
    for month in _months_before(until, partitions):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
            cursor.execute(
                "SELECT EXISTS (SELECT FROM inference_usagepending "
                "WHERE created_at >= %s AND created_at < %s)",
                [month.start, month.plus(1).start],
            )
            if cursor.fetchone()[0]:
                continue
            cursor.execute(f"DROP TABLE {month.partition}")
        dropped.append(month.partition)
    return dropped


def _months_before(until: datetime, partitions: set[str]) -> list[Month]:
    """The months that have a partition and end before `until`, oldest first."""
    prefix = f"{TABLE}_"
    found: list[Month] = []
    for name in sorted(partitions):
        year, _, number = name.removeprefix(prefix).partition("_")
        if year.isdigit() and number.isdigit():
            month = Month(int(year), int(number))
            if month.plus(1).start <= until:
                found.append(month)
    return found


def _delete_before(table: str, column: str, until: datetime, batch_size: int) -> int:
    num_deleted = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {table} WHERE id = ANY (ARRAY("  # noqa: S608 (names of our own)
                f"SELECT id FROM {table} WHERE {column} < %s ORDER BY {column} LIMIT %s "
                "FOR UPDATE SKIP LOCKED))",
                [until, batch_size],
            )
            num_batch: int = cursor.rowcount
        num_deleted += num_batch
        if num_batch < batch_size:
            return num_deleted
