"""What is kept of one person, told in one file or taken out of everything.

Accounts, the ledger and whatever comes later each know their own tables alone. So each has a holder, named
in the setting PERSONAL_DATA_HOLDERS, and this module asks them one after another: to export in pages, so
that a million records need no memory, and to erase in a way that may be done again where it broke off.

Erasing keeps what sums need (ids, numbers, times) under a pseudonym and removes the rest: the user is
switched off and nameless, keys are revoked, kept text is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone
from django.utils.module_loading import import_string

from accounts.audit import change_record
from accounts.models import ApiKey
from accounts.models.administrative_change import ChangeAction


@dataclass(frozen=True, slots=True)
class DataSubject:
    """Whose data it is: the user, his keys, and the name that he has after he was erased."""

    user_id: int
    key_ids: tuple[int, ...]
    pseudonym: str


@dataclass(frozen=True, slots=True)
class DataPage:
    """Rows as JSON has them, and where the next page begins; None behind the last one."""

    rows: list[dict[str, Any]]
    next: Any = None


class PersonalDataHolder(Protocol):
    """One kind of what is kept. `erase` may be called again and then finds little or nothing to do."""

    name: str

    def export_page(self, subject: DataSubject, after: Any) -> DataPage: ...

    def erase(self, subject: DataSubject) -> int:
        """How many rows were changed or deleted."""
        ...


def holders() -> list[PersonalDataHolder]:
    return [import_string(path)() for path in settings.PERSONAL_DATA_HOLDERS]


def pseudonym_of(user_id: int) -> str:
    """What whoever was erased is called from then on."""
    return f"erased-{user_id}"


def data_subject(user: Any) -> DataSubject:
    key_ids = tuple(ApiKey.objects.filter(user_id=user.pk).order_by("pk").values_list("pk", flat=True))
    return DataSubject(user.pk, key_ids, pseudonym=pseudonym_of(user.pk))


def user_export(*, user: Any) -> Iterator[bytes]:
    """All that is kept of a user as one JSON object: `user_id`, `exported_at`, and a list for each kind.

    The pieces are to be written one after another; each costs a few queries.
    """
    subject = data_subject(user)
    change_record(
        action=ChangeAction.EXPORTED,
        kind="user",
        subject_id=user.pk,
        label=user.get_username(),
        user_id=user.pk,
    )
    return _pieces(subject)


def _pieces(subject: DataSubject) -> Iterator[bytes]:
    head = {"user_id": subject.user_id, "exported_at": timezone.now()}
    yield _json(head)[:-1]
    for holder in holders():
        yield b", " + _json(holder.name) + b": ["
        page = holder.export_page(subject, None)
        separator = b""
        while True:
            if page.rows:
                yield separator + b", ".join(_json(row) for row in page.rows)
                separator = b", "
            if page.next is None:
                break
            page = holder.export_page(subject, page.next)
        yield b"]"
    yield b"}\n"


def user_erase(*, user: Any, may_erase_staff: bool = False) -> dict[str, int]:
    """Take a person out of everything; how many rows that were, by kind.

    Raises PermissionDenied for somebody who may sign in to the admin, unless that is meant.
    """
    if (user.is_staff or user.is_superuser) and not may_erase_staff:
        raise PermissionDenied("Users who may sign in to the admin lose that first, in the admin.")
    subject = data_subject(user)
    erased = {holder.name: holder.erase(subject) for holder in holders()}
    change_record(
        action=ChangeAction.ERASED,
        kind="user",
        subject_id=user.pk,
        label=subject.pseudonym,
        user_id=user.pk,
    )
    return erased


def _json(value: Any) -> bytes:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False).encode("utf-8", "backslashreplace")
