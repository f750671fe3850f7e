"""The log of requests, newest first, a page at a time, whatever it is filtered by.

A page goes on behind the last row of the one before (created_at, id), so that no page reads what others
have shown. Time, owner and request id have indexes. For all else the buckets say which hours have such
requests, so that the rare error of last month is found without reading the month.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from inference.domain.usage import HOUR, full_hour
from inference.models import GenerationRecord, GenerationText, StoredEvent
from inference.usage.selectors import UsageOwner

MAX_RECORDS_LOOKED_AT = 200_000
"""For one page: about 0.3 s. A page that has looked at so many ends there, full or not."""
MAX_EVENTS = 200


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """All that is named must fit; instants are aware, `end_at` is exclusive. `reason` is a finish reason or
    a reason of refusal."""

    start_at: datetime
    end_at: datetime
    owner: UsageOwner = field(default_factory=UsageOwner)
    request_id: str = ""
    model: str = ""
    endpoint: str = ""
    outcome: str = ""
    reason: str = ""
    error_code: str = ""

    @property
    def unindexed(self) -> dict[str, str]:
        """What no index of the records knows, by the column of the buckets."""
        names = ("model", "endpoint", "outcome", "reason", "error_code")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Behind a record, or before an instant where there is no id."""

    created_at: datetime
    record_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """`following` is where the next page begins, None at the end."""

    records: tuple[Any, ...]
    following: RecordPlace | None


def records_behind(rows: QuerySet[GenerationRecord], after: RecordPlace | None) -> QuerySet[GenerationRecord]:
    """Those of `rows` that come behind a place, newest first."""
    rows = rows.order_by("-created_at", "-id")
    if after is None:
        return rows
    rows = rows.filter(created_at__lte=after.created_at)
    if after.record_id is None:
        return rows.exclude(created_at=after.created_at)
    return rows.exclude(created_at=after.created_at, id__gte=after.record_id)


def records_page(*, filter: RecordFilter, after: RecordPlace | None, page_size: int) -> RecordPage:
    """The next `page_size` records. Where few fit, a page may have fewer and still be followed."""
    rows = records_behind(_matching(filter), after)
    place = None
    if filter.unindexed and not filter.request_id:
        hours, place = _hours(filter, after, page_size + 1)
        if not hours:
            return RecordPage((), place)
        within = Q()
        for first, end in _runs(hours):
            within |= Q(created_at__gte=first, created_at__lt=end)
        rows = rows.filter(within, created_at__gte=hours[-1])
    found = list(rows[: page_size + 1])
    if len(found) > page_size:
        last = found[page_size - 1]
        return RecordPage(tuple(found[:page_size]), RecordPlace(last.created_at, last.pk))
    return RecordPage(tuple(found), place)


def record_pages(*, filter: RecordFilter, page_size: int) -> Iterator[tuple[Any, ...]]:
    """All of it, for a download. No connection and no transaction waits between the pages."""
    after: RecordPlace | None = None
    while True:
        page = records_page(filter=filter, after=after, page_size=page_size)
        if page.records:
            yield page.records
        if page.following is None:
            return
        after = page.following


def _matching(filter: RecordFilter) -> QuerySet[GenerationRecord]:
    rows = GenerationRecord.objects.filter(
        created_at__gte=filter.start_at, created_at__lt=filter.end_at, **filter.owner.columns
    )
    if filter.request_id:
        rows = rows.filter(request_id=filter.request_id)
    for name, value in filter.unindexed.items():
        if name == "reason":
            rows = rows.filter(Q(rejection_reason=value) | Q(rejection_reason="", finish_reason=value))
        else:
            rows = rows.filter(**{name: value})
    return rows


# Buckets from before they had reasons say nothing about them: they may have such requests.
_MAY_HAVE = {
    "reason": "(reason = %(reason)s OR reason = '')",
    "error_code": "(error_code = %(error_code)s OR (error_code = '' AND reason = ''))",
}
_HOURS = """
SELECT hour, sum(matching)::bigint, (
    SELECT sum(num_requests) FROM inference_teamusagebucket AS all_of WHERE all_of.hour = found.hour
)::bigint
FROM (
    SELECT hour, num_requests AS matching FROM {table} WHERE {condition}
    UNION ALL
    SELECT date_trunc('hour', created_at, 'UTC'), 1 FROM inference_usagepending
    WHERE created_at >= %(start)s AND created_at < %(end)s
) AS found
GROUP BY hour ORDER BY hour DESC LIMIT %(limit)s
"""


def _hours(
    filter: RecordFilter, after: RecordPlace | None, num_wanted: int
) -> tuple[list[datetime], RecordPlace | None]:
    """The next hours that may have such records, newest first, and where to go on when they are done."""
    newest = None if after is None else full_hour(after.created_at)
    end_at = filter.end_at if newest is None else min(filter.end_at, newest + HOUR)
    given: dict[str, Any] = {
        "start": full_hour(filter.start_at),
        "end": end_at,
        "limit": num_wanted + 1,
        **filter.owner.columns,
        **filter.unindexed,
    }
    named = [*filter.owner.columns, *filter.unindexed]
    conditions = [_MAY_HAVE.get(name, f"{name} = %({name})s") for name in named]
    owner = filter.owner
    is_about_keys = owner.key_id is not None or owner.user_id is not None
    query = _HOURS.format(
        table="inference_usagebucket" if is_about_keys else "inference_teamusagebucket",
        condition=" AND ".join([*conditions, "hour >= %(start)s", "hour < %(end)s"]),
    )
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        rows = cursor.fetchall()
    hours: list[datetime] = []
    num_sure, num_looked_at = 0, 0
    for hour, num_matching, num_of_hour in rows:
        is_enough = num_sure >= num_wanted or num_looked_at >= MAX_RECORDS_LOOKED_AT
        if (hours and is_enough) or len(hours) == num_wanted:
            return hours, RecordPlace(hours[-1])
        hours.append(hour)
        num_looked_at += num_of_hour or 0
        # Of the hour in which the last page ended, some have been shown.
        num_sure += 0 if hour == newest else num_matching
    return hours, None


def _runs(hours: Sequence[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """Hours, newest first, as ranges without gaps."""
    end = hours[0] + HOUR
    first = hours[0]
    for hour in hours[1:]:
        if hour + HOUR != first:
            yield first, end
            end = hour + HOUR
        first = hour
    yield first, end


@dataclass(frozen=True, slots=True)
class RecordStory:
    """One request: its record, what telemetry said meanwhile, and its text where it is kept."""

    record: Any
    events: tuple[Any, ...]
    text: Any | None


def record_story(*, record_id: UUID, owner: UsageOwner) -> RecordStory | None:
    """None where the owner has no such record."""
    record = GenerationRecord.objects.filter(pk=record_id, **owner.columns).first()
    if record is None:
        return None
    # Callers may choose their request ids: what others did under the same one is none of this story.
    others = GenerationRecord.objects.filter(request_id=record.request_id).exclude(pk=record.pk)
    events: tuple[Any, ...] = ()
    if record.request_id and not others.exists():
        told = StoredEvent.objects.filter(request_id=record.request_id, at__gte=record.created_at)
        events = tuple(told.order_by("at", "id")[:MAX_EVENTS])
    return RecordStory(record, events, GenerationText.objects.filter(pk=record.pk).first())
