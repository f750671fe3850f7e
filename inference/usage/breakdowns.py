"""What a slice of usage is made of: over time, by model, endpoint, team, user and key, and how it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import Any, Literal

from django.db import connection, transaction

from inference.domain.latency_histogram import NUM_BUCKETS, LatencyHistogram
from inference.models import ModelPrice
from inference.usage.slices import (
    TOTALS_SQL,
    SliceTotals,
    UsageSlice,
    columns_condition,
    hours_sql,
    parties_sql,
    pending_condition,
    pending_sql,
    priced_sql,
)
from inference.usage.spans import Run, Spans, runs_condition

MAX_PORTIONS = 10_000
"""Of one kind: names of models are the callers' to choose."""


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


@dataclass(frozen=True, slots=True)
class SliceParties:
    """Who used a slice, by ids; that of a team is None for what no team did."""

    users: tuple[Portion, ...]
    keys: tuple[Portion, ...]
    teams: tuple[Portion, ...]


_DIMENSIONS = ("model", "endpoint", "outcome", "reason", "error_code")
_OVERVIEW = """
SELECT GROUPING(model, endpoint, outcome), place, model, endpoint, outcome, reason, error_code, {totals}
FROM (SELECT *, width_bucket(hour, %(starts)s::timestamptz[]) - 1 AS place FROM priced) AS placed
GROUP BY GROUPING SETS ((place), (model), (endpoint), (outcome, reason, error_code))
"""
# What GROUPING() says: a bit for each of its columns that a row is not grouped by.
_BY_MODEL, _BY_ENDPOINT, _BY_OUTCOME = 0b011, 0b101, 0b110


def slice_overview(*, slice: UsageSlice, starts: Sequence[datetime]) -> SliceOverview:
    """All that hours can tell in one statement. `starts` (aware, in order) cut the slice into its series;
    the first is not behind the slice's start."""
    given: dict[str, Any] = {"starts": list(starts)}
    parts = _parts(slice, _DIMENSIONS, given, cuts=starts)
    rows = _rows(priced_sql(parts) + _OVERVIEW.format(totals=TOTALS_SQL), given)
    series = [SliceTotals()] * len(starts)
    by: dict[str, defaultdict[Any, SliceTotals]] = {
        name: defaultdict(SliceTotals)
        for name in ("model", "endpoint", "outcome", "finish", "refusal", "error")
    }
    for grouping, place, model, endpoint, outcome, reason, code, *counts in rows:
        totals = SliceTotals(*counts)
        if grouping == _BY_MODEL:
            by["model"][model] = totals
        elif grouping == _BY_ENDPOINT:
            by["endpoint"][endpoint] = totals
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
    )


def _ending(outcome: str, reason: str, error_code: str) -> tuple[str, str]:
    if outcome == "completed":
        return "finish", reason
    return ("refusal", reason or error_code) if outcome == "rejected" else ("error", error_code or outcome)


def slice_totals(*, slice: UsageSlice) -> SliceTotals:
    """The sums alone, for a comparison."""
    given: dict[str, Any] = {}
    parts = _parts(slice, ("model", "outcome"), given)
    ((*counts,),) = _rows(f"{priced_sql(parts)} SELECT {TOTALS_SQL} FROM priced", given)  # noqa: S608
    return SliceTotals() if counts[0] is None else SliceTotals(*counts)


_PARTIES = """
SELECT GROUPING(user_id, key_id), user_id, key_id, team_id, {totals} FROM priced
GROUP BY GROUPING SETS ((user_id), (key_id), (team_id))
"""
_BY_USER, _BY_KEY = 0b01, 0b10


def slice_parties(*, slice: UsageSlice) -> SliceParties:
    """Users, keys and teams, from whole months and days and the hours around them."""
    dimensions = ("user_id", "key_id", "team_id", "model")
    given: dict[str, Any] = {}
    named = columns_condition(slice, given)
    # A month has one price, or it is told by days.
    prices = [
        datetime.combine(day, time(), UTC)
        for day in ModelPrice.objects.values_list("starts_on", flat=True).distinct()
    ]
    spans = Spans.of(slice.start_hour, slice.end_hour, cuts=prices, has_months=True)
    parts = [pending_sql(dimensions, pending_condition(slice, given))]
    for unit, runs in (("month", spans.months), ("day", spans.days)):
        if runs:
            condition = f"{named} AND {runs_condition(unit, runs, given, unit)}"
            parts.append(parties_sql(unit, dimensions, condition))
    if spans.hours:
        condition = runs_condition("hour", spans.hours, given, "hour")
        parts.append(hours_sql(f"inference_usagebucket WHERE {named} AND {condition}", dimensions))
    users: dict[int, SliceTotals] = {}
    keys: dict[int, SliceTotals] = {}
    teams: dict[int | None, SliceTotals] = {}
    query = priced_sql(parts) + _PARTIES.format(totals=TOTALS_SQL)
    for grouping, user_id, key_id, team_id, *counts in _rows(query, given):
        if grouping == _BY_USER:
            users[user_id] = SliceTotals(*counts)
        elif grouping == _BY_KEY:
            keys[key_id] = SliceTotals(*counts)
        else:
            teams[team_id] = SliceTotals(*counts)
    return SliceParties(_portions(users), _portions(keys), _portions(teams))


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
    sources = " UNION ALL ".join(
        f"SELECT {source.hour} AS hour, {', '.join(_KINDS)} FROM {source.sql}"  # noqa: S608
        for source in _sources(slice, given, cuts=starts, kind="latency")
    )
    query = (
        f"SELECT width_bucket(hour, %(starts)s::timestamptz[]) - 1, {_SUMMED} "  # noqa: S608
        f"FROM ({sources}) AS measured GROUP BY 1"
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


@dataclass(frozen=True, slots=True)
class _Source:
    """A table and its WHERE, and the column that says when a row begins."""

    sql: str
    hour: str


def _sources(
    slice: UsageSlice, given: dict[str, Any], *, cuts: Sequence[datetime], kind: Literal["usage", "latency"]
) -> list[_Source]:
    """The fewest rows that tell a slice which is cut there: whole days, and the hours between them."""
    named = columns_condition(slice, given)
    if slice.is_about_keys:
        spans = Spans((), (), ((slice.start_hour, slice.end_hour),))
        let_in = " AND outcome <> 'rejected'" if kind == "latency" else ""
        hours = _Source(f"inference_usagebucket WHERE {named}{let_in}", "hour")
    else:
        spans = Spans.of(slice.start_hour, slice.end_hour, cuts=cuts)
        of_all = f"is_of_all = {slice.owner.team_id is None}"
        if slice.owner.team_id is None:
            hours = _Source(f"inference_span{kind} WHERE num_hours = 1 AND {of_all} AND {named}", "starts_at")
        else:
            hours = _Source(f"inference_team{kind}bucket WHERE {named}", "hour")
    found = [_within(hours, spans.hours, given, "hours")] if spans.hours else []
    if spans.days:
        days = _Source(f"inference_span{kind} WHERE num_hours = 24 AND {of_all} AND {named}", "starts_at")
        found.append(_within(days, spans.days, given, "days"))
    return found


def _within(source: _Source, runs: Sequence[Run], given: dict[str, Any], name: str) -> _Source:
    return _Source(f"{source.sql} AND {runs_condition(source.hour, runs, given, name)}", source.hour)


def _parts(
    slice: UsageSlice, dimensions: Sequence[str], given: dict[str, Any], cuts: Sequence[datetime] = ()
) -> list[str]:
    """Statements whose union is all of a slice, what is not counted yet included."""
    found = [
        hours_sql(source.sql, dimensions, hour=source.hour)
        for source in _sources(slice, given, cuts=cuts, kind="usage")
    ]
    return [*found, pending_sql(dimensions, pending_condition(slice, given))]


def _portions(found: dict[Any, SliceTotals]) -> tuple[Portion, ...]:
    ordered = sorted(found.items(), key=lambda one: (-one[1].num_requests, str(one[0])))
    return tuple(Portion(value, totals) for value, totals in ordered[:MAX_PORTIONS])


def _rows(query: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL work_mem = '32MB'")
        cursor.execute(query, given)
        return cursor.fetchall()  # type: ignore[no-any-return]
