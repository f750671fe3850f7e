"""What accounts itself keeps of a person: the user, what was decided about him, keys, links, and the history.

Rows are changed by `QuerySet.update` here, so that what is removed is not written into the history once more.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts import services
from accounts.models import AdministrativeChange, ApiKey, PasswordLink, UserPolicy
from accounts.personal_data import DataPage, DataSubject

PAGE = 500
ERASED = "(erased)"
# Columns of a user and of a key that say something of the person.
_PERSONAL = {
    "user": ("username", "email", "first_name", "last_name"),
    "api_key": ("name",),
    "sign_in": ("address",),
}
_KEPT_OF_KEYS = (
    "id",
    "name",
    "visible_prefix",
    "last4",
    "scopes",
    "created_at",
    "expires_at",
    "revoked_at",
    "last_used_at",
)


class AccountHolder:
    """The user, his policy and his team."""

    name = "account"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = get_user_model().objects.filter(pk=subject.user_id)
        found: list[dict[str, Any]] = list(
            rows.values(
                "id",
                "username",
                "email",
                "first_name",
                "last_name",
                "is_active",
                "date_joined",
                "last_login",
                "policy__team__name",
                "policy__priority",
                "policy__has_session_trust",
            )
        )
        return DataPage(found)

    def erase(self, subject: DataSubject) -> int:
        with transaction.atomic():
            users = get_user_model().objects.filter(pk=subject.user_id)
            num_users: int = users.update(
                username=subject.pseudonym,
                email="",
                first_name="",
                last_name="",
                last_login=None,
                password=make_password(None),
                is_active=False,
                is_staff=False,
                is_superuser=False,
            )
            for user in users:
                user.groups.through.objects.filter(user_id=user.pk).delete()
                user.user_permissions.through.objects.filter(user_id=user.pk).delete()
            UserPolicy.objects.filter(user_id=subject.user_id).update(team=None, max_own_keys=0)
            _erase_log(get_user_model(), [subject.user_id], subject.pseudonym)
            transaction.on_commit(partial(services.users_forget))
        return num_users


class KeyHolder:
    """His keys, without what would open anything."""

    name = "keys"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = ApiKey.objects.filter(user_id=subject.user_id, pk__gt=after or 0).order_by("pk")
        found = list(rows.values(*_KEPT_OF_KEYS)[:PAGE])
        return DataPage(found, found[-1]["id"] if len(found) == PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        with transaction.atomic():
            rows = ApiKey.objects.filter(user_id=subject.user_id)
            rows.filter(revoked_at__isnull=True).update(revoked_at=timezone.now())
            num_rows: int = rows.exclude(name=ERASED).update(name=ERASED)
            _erase_log(ApiKey, list(subject.key_ids), ERASED)
            transaction.on_commit(partial(services.users_forget))
        return num_rows


class PasswordLinkHolder:
    """His invitations and password links, without what would open anything."""

    name = "password_links"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = PasswordLink.objects.filter(user_id=subject.user_id, pk__gt=after or 0).order_by("pk")
        found = list(rows.values("id", "purpose", "created_at", "expires_at", "used_at", "revoked_at")[:PAGE])
        return DataPage(found, found[-1]["id"] if len(found) == PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        rows = PasswordLink.objects.filter(user_id=subject.user_id)
        # Without signals, which would write his name down once more.
        return int(rows._raw_delete(rows.db))


class HistoryHolder:
    """Lines of the history that speak of him, and those in which he is the one who did it."""

    name = "history"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        rows = _of(subject).filter(pk__gt=after or 0).order_by("pk")
        found = list(rows.values()[:PAGE])
        return DataPage(found, found[-1]["id"] if len(found) == PAGE else None)

    def erase(self, subject: DataSubject) -> int:
        num_rows = 0
        after = 0
        while True:
            rows = list(_of(subject).filter(pk__gt=after).order_by("pk")[:PAGE])
            for row in rows:
                _erase_line(row, subject)
            AdministrativeChange.objects.bulk_update(rows, ["actor_name", "subject_label", "changes"])
            num_rows += len(rows)
            if len(rows) < PAGE:
                return num_rows
            after = rows[-1].pk


def _of(subject: DataSubject) -> Any:
    concerns = Q(subject_user_id=subject.user_id) | Q(actor_user_id=subject.user_id)
    return AdministrativeChange.objects.filter(concerns)


def _erase_line(row: AdministrativeChange, subject: DataSubject) -> None:
    if row.actor_user_id == subject.user_id:
        row.actor_name = subject.pseudonym
    if row.subject_user_id == subject.user_id:
        row.subject_label = subject.pseudonym
        for name in _PERSONAL.get(row.subject_kind, ()):
            if name in row.changes:
                row.changes[name] = [value and ERASED for value in row.changes[name]]


def _erase_log(model: Any, ids: list[int], shown: str) -> None:
    """The admin's own log names things by what they were called."""
    LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(model), object_id__in=[str(pk) for pk in ids]
    ).update(object_repr=shown, change_message="")
