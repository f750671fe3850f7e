"""The log of requests, and one request's story."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from inference.dashboards import figures
from inference.dashboards.query import ZONE_COOKIE, zone_names
from inference.dashboards.viewer import Viewer, console_page
from inference.dashboards.views import has_records, query_of, shared_context
from inference.usage.record_log import RecordPlace, RecordStory, record_story, records_page
from inference.usage.spend import record_spends

PAGE_SIZE = 50
_PLACE = re.compile(r"([0-9]{1,17})(?:-([0-9a-f]{32}))?", re.ASCII)
_MICROSECONDS = 1_000_000


@console_page
def log(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    query = query_of(request, viewer)
    page = records_page(
        filter=query.filter, after=read_place(request.GET.get("after", "")), page_size=PAGE_SIZE
    )
    spends = record_spends(page.records)
    context = {
        "rows": list(zip(page.records, spends, strict=True)),
        "has_spend": any(spend is not None for spend in spends),
        "retention_days": settings.ENVIRONMENT.record_retention_days,
        "following": None if page.following is None else written_place(page.following),
        "is_first": "after" not in request.GET,
        "has_records": bool(page.records) or has_records(viewer),
        **shared_context(query, viewer),
    }
    return render(request, "console/requests.html", context)


@console_page
def story(request: HttpRequest, viewer: Viewer, record_id: UUID) -> HttpResponse:
    found = record_story(record_id=record_id, owner=viewer.whole)
    if found is None:
        raise Http404
    can_see_text = viewer.sees_text_of(found.record.user_id)
    is_kept = found.text is not None and found.text.expires_at > timezone.now()
    zone = request.COOKIES.get(ZONE_COOKIE, "")
    context = {
        "viewer": viewer,
        "record": found.record,
        "story": found,
        "phases": phases_of(found),
        "spend": record_spends([found.record])[0],
        "text": found.text if is_kept and can_see_text else None,
        "is_text_hidden": is_kept and not can_see_text,
        "zone": zone if zone in zone_names() else "UTC",
    }
    return render(request, "console/request.html", context)


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a request's time; `share` is of all of it, 0 … 1."""

    title: str
    seconds: float
    share: float

    @property
    def text(self) -> str:
        return figures.seconds_text(self.seconds)


def phases_of(story: RecordStory) -> tuple[Phase, ...]:
    """From arrival to end: until it could wait for a lane, that wait, its prompt, and its answer. What was
    never reached is left out."""
    record: Any = story.record
    total = record.total_s or 0.0
    if record.queue_s is None:
        parts = [("before it had a lane", total)]
    elif record.first_token_s is None:
        parts = [("waiting for a lane", record.queue_s), ("the rest", total - record.queue_s)]
    else:
        until_first = max(0.0, record.first_token_s - record.queue_s)
        parts = [
            ("waiting for a lane", record.queue_s),
            ("reading, and the prompt", until_first),
            ("the answer", total - record.first_token_s),
        ]
    whole = total or 1.0
    return tuple(
        Phase(title, max(0.0, seconds), min(1.0, max(0.0, seconds) / whole)) for title, seconds in parts
    )


def written_place(place: RecordPlace) -> str:
    at = round(place.created_at.timestamp() * _MICROSECONDS)
    return f"{at}" if place.record_id is None else f"{at}-{place.record_id.hex}"


def read_place(text: str) -> RecordPlace | None:
    """None for the newest, and for what is no place."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    microseconds = int(found[1])
    try:
        at = datetime.fromtimestamp(microseconds // _MICROSECONDS, UTC).replace(
            microsecond=microseconds % _MICROSECONDS
        )
    except (ValueError, OverflowError, OSError):
        return None
    return RecordPlace(at, UUID(found[2]) if found[2] else None)
