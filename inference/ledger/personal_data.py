"""What the ledger keeps of a person: records, kept text, and answers kept for repeated requests.

Records stay, since what was used was used: their numbers go on under a pseudonym, and what a caller or a
person wrote into them goes. Holders in the sense of `accounts.personal_data`, named in the site's settings.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from accounts.personal_data import DataPage, DataSubject
from inference.models import GenerationRecord, GenerationText, IdempotentRequest

EXPORT_PAGE = 500
# Rows of one UPDATE or DELETE: short transactions, so that vacuum and the ledger's own writes keep up.
ERASE_PAGE = 5_000


class RecordHolder:
    """One line for each request. The two numbers bound what is read and what is changed at once."""

    name = "records"

    def __init__(self, *, max_export_rows: int = EXPORT_PAGE, max_erase_rows: int = ERASE_PAGE) -> None:
        self._max_export_rows = max_export_rows
        self._max_erase_rows = max_erase_rows

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = GenerationRecord.objects.filter(user_id=subject.user_id)
        if after is not None:
            created_at, record_id = after
            rows = rows.filter(created_at__gte=created_at).filter(
                Q(created_at__gt=created_at) | Q(id__gt=record_id)
            )
        found = list(rows.order_by("created_at", "id").values()[: self._max_export_rows])
        last = found[-1] if len(found) == self._max_export_rows else None
        return DataPage(found, None if last is None else (last["created_at"], last["id"]))

    def erase(self, subject: DataSubject) -> int:
        rows = GenerationRecord.objects.filter(user_id=subject.user_id)
        num_rows = 0
        left = rows
        while True:
            times = list(
                left.order_by("created_at").values_list("created_at", flat=True)[: self._max_erase_rows]
            )
            if not times:
                return num_rows
            num_rows += rows.filter(created_at__gte=times[0], created_at__lte=times[-1]).update(
                username=subject.pseudonym, key_name="", session="", end_user="", metadata={}
            )
            left = rows.filter(created_at__gt=times[-1])


class TextHolder:
    """What was asked and answered, where a key keeps that."""

    name = "texts"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = GenerationText.objects.filter(user_id=subject.user_id)
        if after is not None:
            rows = rows.filter(record_id__gt=after)
        found = list(rows.order_by("record_id").values()[:EXPORT_PAGE])
        return DataPage(found, found[-1]["record_id"] if len(found) == EXPORT_PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        num_rows = 0
        while True:
            ids = GenerationText.objects.filter(user_id=subject.user_id).values("pk")[:ERASE_PAGE]
            num_deleted, _ = GenerationText.objects.filter(
                pk__in=list(ids.values_list("pk", flat=True))
            ).delete()
            if not num_deleted:
                return num_rows
            num_rows += num_deleted


class IdempotentRequestHolder:
    """Answers kept for 24 hours; they are text like any other, and there is nothing else to tell of them."""

    name = "idempotent_requests"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = IdempotentRequest.objects.filter(key_id__in=subject.key_ids, pk__gt=after or 0).order_by("pk")
        found = list(rows.values("id", "request_id", "created_at", "expires_at", "status")[:EXPORT_PAGE])
        return DataPage(found, found[-1]["id"] if len(found) == EXPORT_PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        num_rows: int = IdempotentRequest.objects.filter(key_id__in=subject.key_ids).delete()[0]
        return num_rows
