"""What a slice of usage is made of: over time, by model, endpoint, team, user and key, and how it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from inference.domain.latency_histogram import NUM_BUCKETS, LatencyHistogram
from inference.usage.slices import (
    TOTALS_SQL,
    SliceTotals,
    UsageSlice,
    days_sql,
    hours_condition,
    hours_sql,
    pending_condition,
    pending_sql,
    priced_sql,
)

MAX_PORTIONS = 10_000
"""Of one kind: names of models are the callers' to choose."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Portion:
    """The part of a slice that belongs to one value: a name, an id, or None for what has none."""

    value: Any
    totals: SliceTotals


@dataclass(frozen=True, slots=True)
class SliceOverview:
    """`series` has one entry for each of the starts that were asked for. Portions are largest first;
    `finish_reasons` are of what was completed, `refusals` of what was not let in, `errors` of the rest."""

    totals: SliceTotals
    series: tuple[SliceTotals, ...]
    outcomes: tuple[Portion, ...]
    finish_reasons: tuple[Portion, ...]
    refusals: tuple[Portion, ...]
    errors: tuple[Portion, ...]
    models: tuple[Portion, ...]
    endpoints: tuple[Portion, ...]
    teams: tuple[Portion, ...]


@dataclass(frozen=True, slots=True)
class SliceParties:
    """Who used a slice, by users' and keys' ids."""

    users: tuple[Portion, ...]
    keys: tuple[Portion, ...]


_DIMENSIONS = ("team_id", "model", "endpoint", "outcome", "reason", "error_code")
_OVERVIEW = """
SELECT GROUPING(model, endpoint, team_id, outcome), place, model, endpoint, team_id, outcome, reason,
    error_code, {totals}
FROM (SELECT *, width_bucket(hour, %(starts)s::timestamptz[]) - 1 AS place FROM priced) AS placed
GROUP BY GROUPING SETS ((place), (model), (endpoint), (team_id), (outcome, reason, error_code))
"""
# What GROUPING() says: a bit for each of its columns that a row is not grouped by.
_BY_MODEL, _BY_ENDPOINT, _BY_TEAM, _BY_OUTCOME = 0b0111, 0b1011, 0b1101, 0b1110


def slice_overview(*, slice: UsageSlice, starts: Sequence[datetime]) -> SliceOverview:
    """All that hours can tell in one statement. `starts` (aware, in order) cut the slice into its series;
    the first is not behind the slice's start."""
    given: dict[str, Any] = {"starts": list(starts)}
    condition = hours_condition(slice, given)
    parts = (
        hours_sql(_table(slice), _DIMENSIONS, condition),
        pending_sql(_DIMENSIONS, pending_condition(slice, given)),
    )
    rows = _rows(priced_sql(parts) + _OVERVIEW.format(totals=TOTALS_SQL), given)
    series = [SliceTotals()] * len(starts)
    by: dict[str, defaultdict[Any, SliceTotals]] = {
        name: defaultdict(SliceTotals)
        for name in ("model", "endpoint", "team", "outcome", "finish", "refusal", "error")
    }
    for grouping, place, model, endpoint, team_id, outcome, reason, code, *counts in rows:
        totals = SliceTotals(*counts)
        if grouping == _BY_MODEL:
            by["model"][model] = totals
        elif grouping == _BY_ENDPOINT:
            by["endpoint"][endpoint] = totals
        elif grouping == _BY_TEAM:
            by["team"][team_id] = totals
        elif grouping == _BY_OUTCOME:
            by["outcome"][outcome] += totals
            kind, value = _ending(outcome, reason, code)
            by[kind][value] += totals
        else:
            series[place] = totals
    return SliceOverview(
        totals=sum(series, SliceTotals()),
        series=tuple(series),
        outcomes=_portions(by["outcome"]),
        finish_reasons=_portions(by["finish"]),
        refusals=_portions(by["refusal"]),
        errors=_portions(by["error"]),
        models=_portions(by["model"]),
        endpoints=_portions(by["endpoint"]),
        teams=_portions(by["team"]),
    )


def _ending(outcome: str, reason: str, error_code: str) -> tuple[str, str]:
    if outcome == "completed":
        return "finish", reason
    return ("refusal", reason or error_code) if outcome == "rejected" else ("error", error_code or outcome)


def slice_totals(*, slice: UsageSlice) -> SliceTotals:
    """The sums alone, for a comparison."""
    given: dict[str, Any] = {}
    condition = hours_condition(slice, given)
    dimensions = ("model", "outcome")
    parts = (
        hours_sql(_table(slice), dimensions, condition),
        pending_sql(dimensions, pending_condition(slice, given)),
    )
    ((*counts,),) = _rows(f"{priced_sql(parts)} SELECT {TOTALS_SQL} FROM priced", given)  # noqa: S608
    return SliceTotals() if counts[0] is None else SliceTotals(*counts)


def slice_parties(*, slice: UsageSlice) -> SliceParties:
    """Users and keys, from whole days and the hours around them."""
    dimensions = ("user_id", "key_id", "model")
    given: dict[str, Any] = {}
    pending = pending_condition(slice, given)
    parts = [pending_sql(dimensions, pending)]
    first_day, last_day = _whole_days(slice)
    named = [f"{name} = %({name})s" for name in slice.columns]
    if first_day < last_day:
        given |= {"first_day": first_day, "last_day": last_day}
        inside = " AND ".join([*named, "day >= %(first_day)s", "day < %(last_day)s"])
        parts.append(days_sql(dimensions, inside))
        edges = [
            ("hour >= %(start)s", "hour < %(first_day)s"),
            ("hour >= %(last_day)s", "hour < %(end)s"),
        ]
    else:
        edges = [("hour >= %(start)s", "hour < %(end)s")]
    parts += [hours_sql("inference_usagebucket", dimensions, " AND ".join([*named, *edge])) for edge in edges]
    query = (
        f"{priced_sql(parts)} SELECT GROUPING(key_id), user_id, key_id, {TOTALS_SQL} FROM priced "  # noqa: S608
        "GROUP BY GROUPING SETS ((user_id), (key_id))"
    )
    users: dict[int, SliceTotals] = {}
    keys: dict[int, SliceTotals] = {}
    for is_user, user_id, key_id, *counts in _rows(query, given):
        if is_user:
            users[user_id] = SliceTotals(*counts)
        else:
            keys[key_id] = SliceTotals(*counts)
    return SliceParties(_portions(users), _portions(keys))


def _whole_days(slice: UsageSlice) -> tuple[datetime, datetime]:
    """The days of UTC that lie wholly in a slice."""
    start, end = slice.start_hour.astimezone(UTC), slice.end_hour.astimezone(UTC)
    first = start.replace(hour=0)
    return first if first == start else first + _DAY, end.replace(hour=0)


# Queues are no part of what a dashboard shows: a quarter of the numbers.
_KINDS = ("first_token_counts", "per_token_counts", "total_counts")
_SUMMED = ", ".join(
    f"ARRAY[{', '.join(f'sum({kind}[{place}])' for place in range(1, NUM_BUCKETS + 1))}]::bigint[]"
    for kind in _KINDS
)


@dataclass(frozen=True, slots=True)
class SliceLatencies:
    """How long requests took that were let in: to the first token, from token to token, to the end."""

    first_token: LatencyHistogram = field(default_factory=LatencyHistogram)
    per_token: LatencyHistogram = field(default_factory=LatencyHistogram)
    total: LatencyHistogram = field(default_factory=LatencyHistogram)


def slice_latencies(*, slice: UsageSlice, starts: Sequence[datetime]) -> tuple[SliceLatencies, ...]:
    """For each of `starts`, of what is aggregated."""
    given: dict[str, Any] = {"starts": list(starts)}
    condition = hours_condition(slice, given)
    if slice.is_about_keys:
        source = f"inference_usagebucket WHERE outcome <> 'rejected' AND {condition}"
    else:
        source = f"inference_teamlatencybucket WHERE {condition}"
    query = (
        f"SELECT width_bucket(hour, %(starts)s::timestamptz[]) - 1, {_SUMMED} "  # noqa: S608
        f"FROM {source} GROUP BY 1"
    )
    found = [SliceLatencies()] * len(starts)
    for place, *kinds in _rows(query, given):
        found[place] = SliceLatencies(*(LatencyHistogram(tuple(counts)) for counts in kinds))
    return tuple(found)


def latencies_merged(reports: Iterable[SliceLatencies]) -> SliceLatencies:
    found = list(reports)
    return SliceLatencies(
        *(
            LatencyHistogram.merged(getattr(report, name).counts for report in found)
            for name in SliceLatencies.__dataclass_fields__
        )
    )


def _table(slice: UsageSlice) -> str:
    return "inference_usagebucket" if slice.is_about_keys else "inference_teamusagebucket"


def _portions(found: dict[Any, SliceTotals]) -> tuple[Portion, ...]:
    ordered = sorted(found.items(), key=lambda one: (-one[1].num_requests, str(one[0])))
    return tuple(Portion(value, totals) for value, totals in ordered[:MAX_PORTIONS])


def _rows(query: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL work_mem = '32MB'")
        cursor.execute(query, given)
        return cursor.fetchall()  # type: ignore[no-any-return]
