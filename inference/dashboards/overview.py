"""The page of usage: what a period was like, and what it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from inference.dashboards import figures
from inference.dashboards.cards import active_card, overview_cards
from inference.dashboards.figures import Card, Chart, ChartLine, PartList, part_list
from inference.dashboards.names import key_names, team_names, user_names
from inference.dashboards.query import DashboardQuery
from inference.dashboards.viewer import Viewer
from inference.models import ModelPrice
from inference.usage.breakdowns import (
    Portion,
    SliceLatencies,
    SliceOverview,
    SliceParties,
    latencies_merged,
    slice_latencies,
    slice_overview,
    slice_parties,
    slice_totals,
)

PARTS = {
    "models": "Models",
    "endpoints": "Endpoints",
    "teams": "Teams",
    "users": "Users",
    "keys": "Keys",
    "finish-reasons": "Finish reasons",
    "refusals": "Refusals",
    "errors": "Errors",
}
_FOR_OPERATORS = ("teams", "users")


@dataclass(frozen=True, slots=True)
class OverviewPage:
    cards: tuple[Card, ...]
    charts: tuple[Chart, ...]
    parts: tuple[PartList, ...]
    unpriced_models: tuple[str, ...]
    is_empty: bool


def overview_page(query: DashboardQuery, viewer: Viewer) -> OverviewPage:
    """Five questions to the buckets and one for each kind of name."""
    period, slice = query.period, query.slice
    found = slice_overview(slice=slice, starts=period.starts)
    latencies = slice_latencies(slice=slice, starts=period.starts)
    parties = slice_parties(slice=slice)
    past = period.before()
    assert past.start_at is not None
    assert past.end_at is not None
    earlier = slice.within(past.start_at, past.end_at)
    before = slice_totals(slice=earlier)
    (latencies_before,) = slice_latencies(slice=earlier, starts=[past.start_at])
    priced = set(ModelPrice.objects.values_list("model", flat=True).distinct())
    used = {portion.value for portion in found.models if portion.totals.num_total_tokens}
    return OverviewPage(
        cards=(
            *overview_cards(
                found, before, latencies_merged(latencies), latencies_before, has_spend=bool(priced)
            ),
            active_card(parties, viewer),
        ),
        charts=_charts(query, found, latencies, has_spend=bool(priced)),
        parts=_lists(query, viewer, found, parties, has_spend=bool(priced)),
        unpriced_models=tuple(sorted(used - priced)) if priced else (),
        is_empty=found.totals.num_requests == 0,
    )


def portions_of(
    kind: str,
    query: DashboardQuery,
    overview: SliceOverview | None = None,
    parties: SliceParties | None = None,
) -> tuple[Portion, ...]:
    """All of one of `PARTS`, by reading no more than that needs."""
    if kind in ("users", "keys", "teams"):
        parties = parties or slice_parties(slice=query.slice)
        whose: tuple[Portion, ...] = getattr(parties, kind)
        return whose
    overview = overview or slice_overview(slice=query.slice, starts=query.period.starts[:1])
    found: tuple[Portion, ...] = getattr(overview, kind.replace("-", "_"))
    return found


def parts_for(viewer: Viewer) -> list[str]:
    return [kind for kind in PARTS if viewer.sees_everybody or kind not in _FOR_OPERATORS]


def list_of(
    kind: str,
    portions: Sequence[Portion],
    query: DashboardQuery,
    *,
    has_spend: bool,
    max_rows: int = 8,
) -> PartList:
    """Parts of one kind with their names, each leading to what it narrows."""
    shown = [portion.value for portion in portions[:max_rows]]
    names: dict[Any, str] = {}
    if kind == "teams":
        names = dict(team_names(shown))
    elif kind == "users":
        names = dict(user_names(shown))
    elif kind == "keys":
        names = dict(key_names(shown))
    return part_list(
        kind,
        PARTS[kind],
        portions,
        name_of=lambda value: names.get(value, str(value or "")),
        address_of=lambda value: _address(kind, value, query),
        max_rows=max_rows,
        more=f"{reverse('console:parts', args=[kind])}?{query.parameters()}",
        has_spend=has_spend and kind not in ("finish-reasons", "refusals", "errors"),
        empty={"errors": "No errors.", "refusals": "Nobody was refused."}.get(
            kind, "Nothing in this period."
        ),
    )


def _address(kind: str, value: Any, query: DashboardQuery) -> str:
    if value is None or value == "":
        return ""
    usage, log = reverse("console:usage"), reverse("console:requests")
    match kind:
        case "models" | "endpoints" | "teams" | "users" | "keys":
            return f"{usage}?{query.parameters(**{kind.removesuffix('s'): str(value)})}"
        case "errors":
            return f"{log}?{query.parameters(error_code=str(value))}"
        case "refusals":
            return f"{log}?{query.parameters(outcome='rejected', reason=str(value))}"
        case _:
            return f"{log}?{query.parameters(outcome='completed', reason=str(value))}"


def _charts(
    query: DashboardQuery, found: SliceOverview, latencies: Sequence[SliceLatencies], *, has_spend: bool
) -> tuple[Chart, ...]:
    period, series = query.period, found.series
    labels = tuple(period.label(start) for start in period.starts)

    def line(title: str, name: str) -> ChartLine:
        return ChartLine(title, tuple(getattr(one, name) for one in series))

    rates = tuple(
        round(one.num_output_tokens / length, 3)
        for one, length in zip(series, period.lengths_s(), strict=True)
    )
    charts = [
        Chart(
            "requests",
            "Requests",
            "bars",
            "count",
            labels,
            (line("all", "num_requests"), line("not completed", "num_unfinished")),
        ),
        Chart(
            "tokens",
            "Tokens",
            "lines",
            "count",
            labels,
            (
                line("input", "num_input_tokens"),
                line("cached input", "num_cached_tokens"),
                line("output", "num_output_tokens"),
            ),
        ),
        Chart(
            "first-token",
            "Time to first token",
            "lines",
            "seconds",
            labels,
            figures.quantile_lines(one.first_token for one in latencies),
        ),
        Chart(
            "total",
            "Total time",
            "lines",
            "seconds",
            labels,
            figures.quantile_lines(one.total for one in latencies),
        ),
        Chart(
            "rate",
            "Output tokens per second, all together",
            "lines",
            "count",
            labels,
            (ChartLine("tokens per second", rates),),
        ),
    ]
    if has_spend:
        charts.append(Chart("spend", "Spend", "bars", "money", labels, (line("spend", "spend"),)))
    return tuple(charts)


def _lists(
    query: DashboardQuery, viewer: Viewer, found: SliceOverview, parties: SliceParties, *, has_spend: bool
) -> tuple[PartList, ...]:
    return tuple(
        list_of(kind, portions_of(kind, query, found, parties), query, has_spend=has_spend)
        for kind in parts_for(viewer)
    )
