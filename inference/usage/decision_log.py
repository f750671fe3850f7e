"""What policies decided, newest first, from the records: a page at a time, and one policy's last day.

Decisions are kept with their record, in its column `hook_decisions`; an index holds the records that have
any. What that index does not know (policy, point, result, action, model) is looked for among a bounded number
of records, so that a page of what is rare ends early instead of reading a month.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from inference.models import GenerationRecord
from inference.usage.record_log import RecordPlace, records_behind
from inference.usage.selectors import UsageOwner

MAX_LOOKED_AT = 20_000
"""Records with decisions, for one page."""
MAX_COUNTED = 100_000
"""Records with decisions, for one policy's numbers."""
COUNTED_TIME = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """All that is named must fit, and of one decision; instants are aware, `end_at` is exclusive."""

    start_at: datetime
    end_at: datetime
    owner: UsageOwner = field(default_factory=UsageOwner)
    policy_id: int | None = None
    point: str = ""
    result: str = ""
    action: str = ""
    model: str = ""

    @property
    def wanted(self) -> dict[str, Any]:
        """What one decision has to contain, as it is kept."""
        wanted: dict[str, Any] = {} if self.policy_id is None else {"policy_id": self.policy_id}
        wanted |= {name: getattr(self, name) for name in ("point", "result") if getattr(self, name)}
        return wanted | ({"actions": [self.action]} if self.action else {})

    def fits(self, decision: Mapping[str, Any]) -> bool:
        has_action = not self.action or self.action in decision.get("actions", ())
        plain = {name: value for name, value in self.wanted.items() if name != "actions"}
        return has_action and all(decision.get(name) == value for name, value in plain.items())


@dataclass(frozen=True, slots=True)
class DecidedRecord:
    """A record with those of its decisions that fit."""

    record: Any
    decisions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """`following` is where the next page begins, None at the end."""

    records: tuple[DecidedRecord, ...]
    following: RecordPlace | None


def decisions_page(*, filter: DecisionFilter, after: RecordPlace | None, page_size: int) -> DecisionPage:
    """The next `page_size` records. Where few fit, a page may have fewer and still be followed."""
    rows = _decided(filter, after)
    end = None
    if filter.wanted or filter.model:
        end = rows.values_list("created_at", "id")[MAX_LOOKED_AT - 1 : MAX_LOOKED_AT].first()
        if end is not None:
            rows = rows.filter(Q(created_at__gt=end[0]) | Q(created_at=end[0], id__gte=end[1]))
            rows = rows.filter(created_at__gte=end[0])
        if filter.wanted:
            rows = rows.filter(hook_decisions__contains=[filter.wanted])
        if filter.model:
            rows = rows.filter(model=filter.model)
    found = list(rows[: page_size + 1])
    shown = found[:page_size]
    following = None if end is None else RecordPlace(end[0], end[1])
    if len(found) > page_size:
        following = RecordPlace(shown[-1].created_at, shown[-1].pk)
    return DecisionPage(
        tuple(
            DecidedRecord(row, tuple(one for one in row.hook_decisions if filter.fits(one))) for row in shown
        ),
        following,
    )


def _decided(filter: DecisionFilter, after: RecordPlace | None) -> QuerySet[GenerationRecord]:
    rows = GenerationRecord.objects.filter(
        created_at__gte=filter.start_at, created_at__lt=filter.end_at, **filter.owner.columns
    ).exclude(hook_decisions=[])
    return records_behind(rows, after)


@dataclass(frozen=True, slots=True)
class PolicyNumbers:
    """One policy's decisions of a day: where it matched or failed. How often it was asked and did not match
    is not kept, only counted in the metrics. Times are in ms, None where there are no decisions."""

    num_decisions: int
    num_matched: int
    num_denied: int
    num_failed: int
    p50_ms: float | None
    p95_ms: float | None
    is_partial: bool
    """There were more than MAX_COUNTED records with decisions; the newest are counted."""


_NUMBERS = """
WITH decided AS MATERIALIZED (
    SELECT hook_decisions FROM inference_generationrecord
    WHERE NOT (hook_decisions = '[]'::jsonb) AND created_at >= %(start)s AND created_at <= %(now)s
    ORDER BY created_at DESC, id DESC LIMIT %(limit)s
), its AS (
    SELECT one ->> 'result' AS result, one -> 'actions' AS actions,
        (one ->> 'elapsed_ms')::double precision AS elapsed_ms
    FROM decided, jsonb_array_elements(hook_decisions) AS one
    WHERE hook_decisions @> %(wanted)s::jsonb AND one @> %(one)s::jsonb
)
SELECT count(*), count(*) FILTER (WHERE result IN ('applied', 'observed', 'refused')),
    count(*) FILTER (WHERE result = 'applied' AND actions @> '["deny"]'::jsonb),
    count(*) FILTER (WHERE result IN ('failed_open', 'failed_closed')),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY elapsed_ms),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY elapsed_ms),
    (SELECT count(*) FROM decided) >= %(limit)s
FROM its
"""


def policy_numbers(*, policy_id: int, now: datetime) -> PolicyNumbers:
    """Of the last 24 hours."""
    one = {"policy_id": policy_id}
    with connection.cursor() as cursor:
        cursor.execute(
            _NUMBERS,
            {
                "start": now - COUNTED_TIME,
                "now": now,
                "limit": MAX_COUNTED,
                "wanted": json.dumps([one]),
                "one": json.dumps(one),
            },
        )
        return PolicyNumbers(*cursor.fetchone())
