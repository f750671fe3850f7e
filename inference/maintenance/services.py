"""Closing the service to newcomers, and opening it again. Every door comes through here; the history tells
of it, since it listens to the row."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.utils import timezone

from accounts.actors import current_actor
from accounts.models import ApiKey
from accounts.names import validate_name
from inference.models import Maintenance
from inference.models.maintenance import MAX_LET_KEYS, MAX_MESSAGE_LENGTH, ONLY_ID

# The channel of NOTIFY on which processes hear that the row was written.
CHANNEL = "skippy_maintenance"
# Any number that no other lock of this database uses: "maint" in ASCII.
_ROW_LOCK = 0x6D61696E74
MAX_AHEAD = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """What whoever closes the service says; `message` "" is the usual one."""

    message: str = ""
    until: datetime | None = None
    refuses_queued: bool = False
    lets_administrators: bool = False
    let_key_ids: Collection[int] = ()


def maintenance_begin(*, plan: MaintenancePlan) -> Maintenance:
    """From within seconds on newcomers are refused. Where they are already, it says from now on what `plan`
    says. Raises ValidationError naming the field."""
    message = plan.message.strip()
    key_ids = sorted(set(plan.let_key_ids))
    _check_message(message)
    _check_until(plan.until)
    _check_keys(key_ids)
    with transaction.atomic():
        row = _locked_row()
        if not row.is_on:
            row.began_at = timezone.now()
            row.began_by = current_actor().name[:200]
        row.is_on = True
        row.message = message
        row.until = plan.until
        row.refuses_queued = plan.refuses_queued
        row.lets_administrators = plan.lets_administrators
        row.let_key_ids = key_ids
        _save(row)
    return row


def maintenance_end() -> bool:
    """Open to everybody again; False where it was open."""
    with transaction.atomic():
        row = _locked_row()
        if not row.is_on:
            return False
        row.is_on = row.refuses_queued = row.lets_administrators = False
        row.message, row.until, row.let_key_ids = "", None, []
        row.began_at, row.began_by = None, ""
        _save(row)
    return True


def _locked_row() -> Maintenance:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ROW_LOCK])
    return Maintenance.objects.filter(pk=ONLY_ID).first() or Maintenance()


def _save(row: Maintenance) -> None:
    row.save()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])


def _check_message(message: str) -> None:
    """It is read by people, in pages, terminals and errors: one line of plain text."""
    if not message:
        return
    try:
        validate_name(message, max_length=MAX_MESSAGE_LENGTH)
    except ValidationError as problem:
        said = problem.messages[0].replace("A name", "The message")
        raise ValidationError({"message": said}) from None
    if all(unicodedata.category(character)[0] in "CZM" for character in message):
        raise ValidationError({"message": "The message has nothing that can be seen."})


def _check_until(until: datetime | None) -> None:
    if until is None:
        return
    if timezone.is_naive(until):
        raise ValidationError({"until": "The planned end needs a time zone."})
    now = timezone.now()
    if not now < until <= now + MAX_AHEAD:
        raise ValidationError({"until": "The planned end must be in the future, within a year."})


def _check_keys(key_ids: list[int]) -> None:
    if len(key_ids) > MAX_LET_KEYS:
        raise ValidationError({"let_key_ids": f"At most {MAX_LET_KEYS} keys can be let through."})
    known = set(ApiKey.objects.filter(pk__in=key_ids).values_list("pk", flat=True))
    unknown = [str(one) for one in key_ids if one not in known]
    if unknown:
        raise ValidationError({"let_key_ids": f"There is no key {', '.join(unknown)}."})
