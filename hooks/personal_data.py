"""What replays of policies keep of a person. A holder in the sense of `accounts.personal_data`."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from accounts.personal_data import DataPage, DataSubject
from hooks.models import HookReplay
from hooks.models.replay import ReplayState
from hooks.services.replay_source import advance_send

EXPORT_PAGE = 500


class ReplayHolder:
    """Who asked for a replay, and which requests are its examples. Numbers of users and keys stay, as they do
    in records; names are not in there. Its turn is behind the records': slices that begin later find these
    erased, and make no examples of them."""

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
        with transaction.atomic():
            _slices_interrupt()
            theirs = [{"user_id": subject.user_id}]
            named = Q(tally__examples__contains=theirs) | Q(tally__failed_examples__contains=theirs)
            for row in HookReplay.objects.select_for_update().filter(named):
                for name in ("examples", "failed_examples"):
                    row.tally[name] = [one for one in row.tally[name] if one["user_id"] != subject.user_id]
                row.save(update_fields=["tally"])
                num_rows += 1
        return num_rows


def _slices_interrupt() -> None:
    """A slice that is under way has a tally in memory, of records read before they were erased, and would
    write it over this: it is no longer its turn, and the work is done again. Also of one that was cancelled
    meanwhile; of what is done there are none."""
    open_rows = HookReplay.objects.exclude(state=ReplayState.DONE.value)
    claimed = open_rows.filter(state=ReplayState.RUNNING.value, claimed_until__isnull=False)
    replay_ids = list(claimed.values_list("pk", flat=True))
    open_rows.update(turn=F("turn") + 1, claimed_until=None)
    for replay_id in replay_ids:
        transaction.on_commit(partial(advance_send, replay_id))
