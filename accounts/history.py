"""Reading the history of changes, for whoever shows that of his own things."""

from __future__ import annotations

from typing import Any

from accounts.models import AdministrativeChange


def changes_of(*, subject_kind: str, subject_id: int | None = None) -> Any:
    """A query set of AdministrativeChange: of one kind of thing, or of one thing. Newest first."""
    rows = AdministrativeChange.objects.filter(subject_kind=subject_kind)
    return rows if subject_id is None else rows.filter(subject_id=subject_id)


def changes_about_user(*, user_id: int) -> Any:
    """A query set of AdministrativeChange: of a user and of all that is his (policy, keys). Newest first."""
    return AdministrativeChange.objects.filter(subject_user_id=user_id)
