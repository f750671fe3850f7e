"""Usage, its parts, and the first request to make."""

from __future__ import annotations

import json
import shlex
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from inference.dashboards.overview import PARTS, list_of, overview_page, parts_for, portions_of
from inference.dashboards.query import PRESETS, ZONE_COOKIE, DashboardQuery, read_query, zone_names
from inference.dashboards.viewer import Viewer, console_page
from inference.dashboards.whose import owner_named, owner_written
from inference.domain.outcomes import Outcome
from inference.models import GenerationRecord, ModelPrice, ModelRow

MAX_LISTED = 500
SORTS = {
    "requests": "num_requests",
    "not completed": "num_unfinished",
    "input": "num_input_tokens",
    "output": "num_output_tokens",
    "spend": "spend",
}
"""What a list of parts may be sorted by, largest first, and the field of its totals."""


def query_of(request: HttpRequest, viewer: Viewer) -> DashboardQuery:
    return read_query(
        request.GET.dict(),
        viewer,
        now=timezone.now(),
        zone_of_browser=request.COOKIES.get(ZONE_COOKIE, ""),
        find=owner_named,
    )


def shared_context(query: DashboardQuery, viewer: Viewer) -> dict[str, Any]:
    """What the form of every page with a period needs."""
    return {
        "query": query,
        "viewer": viewer,
        "presets": PRESETS,
        "zones": zone_names(),
        "outcomes": [outcome.value for outcome in Outcome],
        "parameters": query.parameters(),
        "whose": owner_written(query.owner, viewer),
    }


@console_page
def usage(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    query = query_of(request, viewer)
    if not request.GET and not has_records(viewer):
        return _start(request, viewer)
    page = overview_page(query, viewer)
    return render(request, "console/usage.html", {"page": page, **shared_context(query, viewer)})


@console_page
def parts(request: HttpRequest, viewer: Viewer, kind: str) -> HttpResponse:
    """All parts of one kind."""
    if kind not in parts_for(viewer):
        raise Http404
    query = query_of(request, viewer)
    has_spend = ModelPrice.objects.exists()
    sorts = [name for name in SORTS if name != "spend" or has_spend]
    sort = request.GET.get("sort", "")
    sort = sort if sort in sorts else sorts[0]
    portions = sorted(
        portions_of(kind, query), key=lambda portion: getattr(portion.totals, SORTS[sort]), reverse=True
    )
    context = {
        "kind": kind,
        "title": PARTS[kind],
        "sorts": sorts,
        "sort": sort,
        "list": list_of(kind, portions, query, has_spend=has_spend, max_rows=MAX_LISTED),
        **shared_context(query, viewer),
    }
    return render(request, "console/parts.html", context)


@console_page
def start(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    return _start(request, viewer)


def _start(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """What to do first: where there is nothing to show yet, and for who wants to see it again."""
    model = ModelRow.objects.filter(is_enabled=True).order_by("-is_default", "pk").first()
    name = "the-model" if model is None else model.model_id
    body = {"model": name, "messages": [{"role": "user", "content": "Hello!"}]}
    context = {
        "viewer": viewer,
        "base_url": request.build_absolute_uri("/v1"),
        "model": name,
        "quoted_model": json.dumps(name),
        "quoted_body": shlex.quote(json.dumps(body, ensure_ascii=False)),
        "has_model": model is not None,
        "has_records": has_records(viewer),
    }
    return render(request, "console/start.html", context)


def has_records(viewer: Viewer) -> bool:
    return bool(GenerationRecord.objects.filter(**viewer.whole.columns).exists())
