"""Events of telemetry about a person's requests: numbers, and the model that was named in the body.

They know no user, so they are found by the request ids of the user's records. Holders in the sense of
`accounts.personal_data`, named in the site's settings.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from accounts.personal_data import DataPage, DataSubject
from inference.models import StoredEvent
from inference.usage.event_store import events_aggregate

EXPORT_PAGE = 500
ERASE_PAGE = 5_000
_IDS = """
SELECT DISTINCT e.id FROM inference_generationrecord AS r
JOIN inference_storedevent AS e ON e.request_id = r.request_id
WHERE r.user_id = %s AND r.created_at >= (SELECT min(at) - interval '1 day' FROM inference_storedevent)
    AND e.request_id <> '' AND e.id > %s
ORDER BY e.id LIMIT %s
"""


class EventHolder:
    """Erased as a whole; what they were counted as by hours stays."""

    name = "events"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        ids = _ids(subject, after or 0, EXPORT_PAGE)
        found = list(StoredEvent.objects.filter(pk__in=ids).order_by("pk").values())
        return DataPage(found, ids[-1] if len(ids) == EXPORT_PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        events_aggregate()
        num_rows = 0
        while ids := _ids(subject, 0, ERASE_PAGE):
            num_rows += StoredEvent.objects.filter(pk__in=ids).delete()[0]
        return num_rows


def _ids(subject: DataSubject, after: int, limit: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(_IDS, [subject.user_id, after, limit])
        return [event_id for (event_id,) in cursor.fetchall()]
