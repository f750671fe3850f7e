"""Alerts name whose budget is used up. A holder in the sense of `accounts.personal_data`."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, F, Func, QuerySet, Value

from accounts.personal_data import DataPage, DataSubject
from inference.alerts.signals import AlertKind
from inference.models import Alert

EXPORT_PAGE = 500
ERASED = "Its name was erased."


class AlertHolder:
    """Of the user's and his keys' budgets. That there was an alert stays, the name goes."""

    name = "alerts"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = _alerts(subject).filter(pk__gt=after or 0).order_by("pk")
        found = list(rows.values("id", "kind", "subject", "message", "opened_at", "closed_at")[:EXPORT_PAGE])
        return DataPage(found, found[-1]["id"] if len(found) == EXPORT_PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        return _alerts(subject).exclude(message=ERASED).update(message=ERASED)


def _alerts(subject: DataSubject) -> QuerySet[Alert]:
    """Subjects begin with whose budget it is, and a comma (`budget_signals`)."""
    owners = [f"user {subject.user_id}", *(f"key {key_id}" for key_id in subject.key_ids)]
    whose = Func(F("subject"), Value(","), Value(1), function="split_part", output_field=CharField())
    return Alert.objects.filter(kind=AlertKind.BUDGET.value).annotate(whose=whose).filter(whose__in=owners)
