"""Reading usage: of a key, a user, a team or everybody; as a report, or as the records one by one.

A report is the buckets and what no bucket has counted yet, read by one statement, so that each
record is in it exactly once and from the moment at which it was committed. It reads no record that
a bucket has counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from inference.domain.latency_histogram import BOUNDS_S, LatencyHistogram
from inference.domain.usage import (
    LatencyReport,
    UsageBucketTotals,
    UsageRange,
    UsageReport,
    UsageTotals,
    bucket_bounds,
)
from inference.models import GenerationRecord

MAX_ROWS_A_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class UsageOwner:
    """Whose usage: everything named must fit. Nothing named is everybody's."""

    key_id: int | None = None
    user_id: int | None = None
    team_id: int | None = None

    @property
    def columns(self) -> dict[str, int]:
        """The columns of buckets and records that must have this value."""
        found = {"key_id": self.key_id, "user_id": self.user_id, "team_id": self.team_id}
        return {name: value for name, value in found.items() if value is not None}


_SUMS = (
    "sum(num_requests)::bigint, sum(num_input_tokens)::bigint, sum(num_cached_tokens)::bigint, "
    "sum(num_output_tokens)::bigint, sum(num_reasoning_tokens)::bigint, sum(num_injected_tokens)::bigint"
)
_REPORT = """
WITH counted AS (
    SELECT hour, outcome, num_requests, num_input_tokens, num_cached_tokens, num_output_tokens,
        num_reasoning_tokens, num_injected_tokens
    FROM inference_usagebucket WHERE {buckets}
    UNION ALL
    SELECT date_trunc('hour', r.created_at, 'UTC'), r.outcome, 1, r.num_input_tokens, r.num_cached_tokens,
        r.num_output_tokens, r.num_reasoning_tokens, r.num_injected_tokens
    FROM inference_usagepending AS p
    JOIN inference_generationrecord AS r ON r.id = p.record_id AND r.created_at = p.created_at
    WHERE {pending}
)
SELECT {hour}, outcome, {sums} FROM counted GROUP BY 1, 2 ORDER BY 1, 2
"""
_LATENCIES = """
SELECT kind, place, sum(count)::bigint FROM (
    SELECT kind, place, count FROM inference_usagebucket AS b
    CROSS JOIN LATERAL (VALUES (0, b.queue_counts), (1, b.first_token_counts), (2, b.per_token_counts),
        (3, b.total_counts)) AS histogram (kind, counts)
    CROSS JOIN LATERAL unnest(histogram.counts) WITH ORDINALITY AS one (count, place)
    WHERE {buckets}
) AS places WHERE count > 0 GROUP BY kind, place
"""


def usage_report(*, owner: UsageOwner, range: UsageRange) -> UsageReport:
    """What was used, whatever came of it, up to the last commit."""
    rows = _counted(owner, range)
    totals, outcomes = UsageTotals(), defaultdict[str, UsageTotals](UsageTotals)
    for _, outcome, counted in rows:
        totals += counted
        outcomes[outcome] += counted
    return UsageReport(
        range=range,
        totals=totals,
        by_outcome=tuple(sorted(outcomes.items())),
        buckets=_cut(rows, range),
    )


def _counted(owner: UsageOwner, range: UsageRange) -> list[tuple[datetime | None, str, UsageTotals]]:
    """Totals by hour (None where no cut was asked for) and outcome, in order."""
    in_buckets, in_pending, given = _conditions(owner, range)
    query = _REPORT.format(
        buckets=in_buckets,
        pending=in_pending,
        sums=_SUMS,
        hour="hour" if range.width is not None else "NULL::timestamptz",
    )
    with transaction.atomic(), connection.cursor() as cursor:
        # The hours of all keys are added up in memory, where the usual few MB would send them to the disk.
        cursor.execute("SET LOCAL work_mem = '32MB'")
        cursor.execute(query, given)
        return [(hour, outcome, UsageTotals(*counts)) for hour, outcome, *counts in cursor.fetchall()]


def _conditions(owner: UsageOwner, range: UsageRange) -> tuple[str, str, dict[str, Any]]:
    """What buckets and pending records must fulfil, and the values for both."""
    given: dict[str, Any] = dict(owner.columns)
    buckets = [f"{name} = %({name})s" for name in owner.columns]
    # The pending row repeats key and user, so that neither costs more than its own.
    pending = [f"{'r' if name == 'team_id' else 'p'}.{name} = %({name})s" for name in owner.columns]
    for name, sign, hour in (("start", ">=", range.start_hour), ("end", "<", range.end_hour)):
        if hour is not None:
            given[name] = hour
            buckets.append(f"hour {sign} %({name})s")
            pending.append(f"p.created_at {sign} %({name})s")
    return " AND ".join(buckets) or "true", " AND ".join(pending) or "true", given


def _cut(
    rows: Sequence[tuple[datetime | None, str, UsageTotals]], range: UsageRange
) -> tuple[UsageBucketTotals, ...]:
    if range.width is None:
        return ()
    found = defaultdict[tuple[datetime, datetime], UsageTotals](UsageTotals)
    for hour, _, counted in rows:
        if hour is not None:
            found[bucket_bounds(hour, width=range.width, zone=range.zone)] += counted
    return tuple(UsageBucketTotals(start, end, totals) for (start, end), totals in found.items())


def usage_latencies(*, owner: UsageOwner, range: UsageRange) -> LatencyReport:
    """How long requests took, of those that are aggregated. Reads 200 numbers a bucket: for a key or a
    user, or for a short time of everybody."""
    in_buckets, _, given = _conditions(owner, range)
    counts = [[0] * (len(BOUNDS_S) + 1) for _ in LatencyReport.__dataclass_fields__]
    with connection.cursor() as cursor:
        cursor.execute(_LATENCIES.format(buckets=in_buckets), given)
        for kind, place, count in cursor.fetchall():
            counts[kind][place - 1] = count
    return LatencyReport(*(LatencyHistogram(tuple(one)) for one in counts))


def records_paged(
    *, owner: UsageOwner, range: UsageRange, columns: Sequence[str], page_size: int = MAX_ROWS_A_PAGE
) -> Iterator[list[tuple[Any, ...]]]:
    """All records of the range, oldest first, in pages of tuples of `columns`.

    Each page is one query that goes on behind the last row (created_at, id), so that no transaction and no
    connection waits for whoever reads the pages.
    """
    rows = GenerationRecord.objects.filter(**owner.columns).order_by("created_at", "id")
    if range.start_hour is not None:
        rows = rows.filter(created_at__gte=range.start_hour)
    if range.end_hour is not None:
        rows = rows.filter(created_at__lt=range.end_hour)
    behind = rows
    while page := list(behind.values_list("created_at", "id", *columns)[:page_size]):
        yield [row[2:] for row in page]
        if len(page) < page_size:
            return
        created_at, record_id = page[-1][0], page[-1][1]
        # The first condition says nothing new, but is one that an index knows how to start at.
        behind = rows.filter(created_at__gte=created_at).exclude(created_at=created_at, id__lte=record_id)
