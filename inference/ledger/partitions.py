"""Months of the records, made before anybody writes to them and dropped as a whole when they are old.

A record of a month without a partition goes to the default one, where it is found as well; but a
month that has rows there can no longer be made without moving them. So months are made ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

TABLE = "inference_generationrecord"
DEFAULT_PARTITION = f"{TABLE}_default"
NUM_MONTHS_AHEAD = 3
# One maker at a time, whatever process it is in; any constant would do.
_LOCK = 0x51C5_0001


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A month in UTC, by which records are kept apart."""

    year: int
    month: int

    @classmethod
    def of(cls, at: datetime) -> Month:
        at = at.astimezone(UTC)
        return cls(at.year, at.month)

    def plus(self, num_months: int) -> Month:
        index = self.year * 12 + self.month - 1 + num_months
        return Month(index // 12, index % 12 + 1)

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.month, 1, tzinfo=UTC)

    @property
    def partition(self) -> str:
        return f"{TABLE}_{self.year:04d}_{self.month:02d}"


def partitions_ensure(
    *,
    connection: BaseDatabaseWrapper,
    now: datetime | None = None,
    num_months_ahead: int = NUM_MONTHS_AHEAD,
) -> list[Month]:
    """Make the months from the last one to `num_months_ahead` from now, and those that rows of the
    default partition belong to; give those that were missing. May run anywhere, at any time, twice."""
    this = Month.of(now or timezone.now())
    made: list[Month] = []
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        cursor.execute(
            f"SELECT DISTINCT date_trunc('month', created_at, 'UTC') FROM {DEFAULT_PARTITION}"  # noqa: S608
        )
        stray = {Month.of(at) for (at,) in cursor.fetchall()}
        wanted = stray | {this.plus(offset) for offset in range(-1, num_months_ahead + 1)}
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [TABLE]
        )
        present = {name for (name,) in cursor.fetchall()}
        for month in sorted(wanted):
            if month.partition not in present:
                _make(cursor, month)
                made.append(month)
    return made


def _make(cursor: object, month: Month) -> None:
    """Make the month's table, move what belongs into it, and attach it."""
    name, bounds = month.partition, [month.start, month.plus(1).start]
    execute = cursor.execute  # type: ignore[attr-defined]
    execute(f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
    execute(
        f"WITH moved AS (DELETE FROM {DEFAULT_PARTITION} "  # noqa: S608
        f"WHERE created_at >= %s AND created_at < %s RETURNING *) INSERT INTO {name} SELECT * FROM moved",
        bounds,
    )
    execute(
        f"ALTER TABLE {TABLE} ATTACH PARTITION {name} "
        f"FOR VALUES FROM ('{bounds[0].isoformat()}') TO ('{bounds[1].isoformat()}')"
    )
