"""What replays of policies keep of a person. A holder in the sense of `accounts.personal_data`."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from accounts.personal_data import DataPage, DataSubject
from hooks.models import HookReplay

EXPORT_PAGE = 500


class ReplayHolder:
    """Who asked for a replay, and which requests are its examples. Numbers of users and keys stay, as they do
    in records; names are not in there."""

    name = "replays"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = HookReplay.objects.filter(asked_by_id=subject.user_id, pk__gt=after or 0).order_by("pk")
        found = list(
            rows.values("id", "policy_id", "is_draft", "start_at", "end_at", "created_at")[:EXPORT_PAGE]
        )
        return DataPage(found, found[-1]["id"] if len(found) == EXPORT_PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        num_rows: int = (
            HookReplay.objects.filter(asked_by_id=subject.user_id)
            .exclude(asked_by=subject.pseudonym)
            .update(asked_by=subject.pseudonym)
        )
        theirs = [{"user_id": subject.user_id}]
        named = Q(tally__examples__contains=theirs) | Q(tally__failed_examples__contains=theirs)
        # One that runs writes its tally again: what was erased goes with the next try.
        for row in HookReplay.objects.filter(named):
            for name in ("examples", "failed_examples"):
                row.tally[name] = [one for one in row.tally[name] if one["user_id"] != subject.user_id]
            num_rows += HookReplay.objects.filter(pk=row.pk, turn=row.turn).update(tally=row.tally)
        return num_rows
