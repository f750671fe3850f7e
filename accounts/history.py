"""The history of changes for whoever has things of his own: reading it, and telling what no signal sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accounts.audit import change_record
from accounts.models import AdministrativeChange
from accounts.models.administrative_change import ChangeAction


def changes_of(*, subject_kind: str, subject_id: int | None = None) -> Any:
    """A query set of AdministrativeChange: of one kind of thing, or of one thing. Newest first."""
    rows = AdministrativeChange.objects.filter(subject_kind=subject_kind)
    return rows if subject_id is None else rows.filter(subject_id=subject_id)


def changes_about_user(*, user_id: int) -> Any:
    """A query set of AdministrativeChange: of a user and of all that is his (policy, keys). Newest first."""
    return AdministrativeChange.objects.filter(subject_user_id=user_id)


def change_add(
    *, kind: str, subject_id: int | None, label: str, changes: Mapping[str, Any], action: str = "changed"
) -> None:
    """Add a line in the name of who acts now: of what was done with a thing and is no change of its columns.
    `changes` maps a word for it to [from, to]."""
    change_record(action=ChangeAction(action), kind=kind, subject_id=subject_id, label=label, changes=changes)
