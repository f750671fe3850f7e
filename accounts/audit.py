"""Writes the history of changes, whichever way they come in.

Admin pages, the API and commands change the same tables, and some of those pages are Django's own; what
is only told by those who remember to tell it has holes. So the tables themselves are listened to: each
saved or deleted row of an audited model becomes one `AdministrativeChange` in the same transaction, with
what its columns were and are. `QuerySet.update` passes unseen, so services do not use it on audited
columns; `accounts.erasure` does, because what it removes must not be written down once more.

Columns whose content nobody may see again (passwords) are only said to have changed; digests of keys and
what changes by mere use (last use, last sign-in) are not audited at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, models, transaction
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save

from accounts.actors import current_actor
from accounts.models import AdministrativeChange, ApiKey, PasswordLink, Team, UserPolicy
from accounts.models.administrative_change import MAX_LABEL_LENGTH, ChangeAction

SECRET = "(secret)"  # noqa: S105 - what is shown in place of one
MAX_VALUE_LENGTH = 2000
_BEFORE = "_audited_before"


@dataclass(frozen=True, slots=True)
class AuditedModel:
    """What is told of a model. `user_id` names whom a row concerns, if anybody."""

    kind: str
    label: Callable[[Any], str]
    user_id: Callable[[Any], int | None] = lambda _row: None
    left_out: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()


_audited: dict[type[models.Model], AuditedModel] = {}


def change_record(
    *,
    action: ChangeAction,
    kind: str,
    subject_id: int | None,
    label: str,
    user_id: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Add one line to the history, in the name of the current actor."""
    actor = current_actor()
    AdministrativeChange.objects.create(
        door=actor.door.value,
        actor_user_id=actor.user_id,
        actor_name=actor.name[:MAX_LABEL_LENGTH],
        actor_key_id=actor.key_id,
        request_id=actor.request_id or "",
        action=action,
        subject_kind=kind,
        subject_id=subject_id,
        subject_label=label[:MAX_LABEL_LENGTH],
        subject_user_id=user_id,
        changes=dict(changes or {}),
    )


def audit(model: type[models.Model], audited: AuditedModel) -> None:
    """Listen to a model's rows from now on. Doing it twice is fine."""
    _audited[model] = audited
    for signal, receiver in (
        (pre_save, _before_save),
        (post_save, _after_save),
        (pre_delete, _before_delete),
        (post_delete, _after_delete),
    ):
        signal.connect(receiver, sender=model, dispatch_uid=f"audit-{audited.kind}")


def audited_kind(model: type[models.Model]) -> str:
    """What rows of a model are called in the history. Raises KeyError where nobody listens to them."""
    return _audited[model].kind


def audit_relation(through: type[models.Model], *, field: str) -> None:
    """Listen to a many-to-many relation of an audited model too."""

    def changed(instance: Any, action: str, reverse: bool, model: Any, pk_set: Any, **_: Any) -> None:
        audited = _audited.get(type(instance))
        if audited is None or action not in ("post_add", "post_remove", "pre_clear"):
            return
        name = f"{field} of its members" if reverse else field
        rows = getattr(instance, field).all() if action == "pre_clear" and not reverse else None
        chosen = rows if rows is not None else model.objects.filter(pk__in=pk_set or ())
        names = sorted(str(row) for row in chosen)
        if names:
            pair = [None, names] if action == "post_add" else [names, None]
            _record(instance, audited, ChangeAction.CHANGED, {name: pair})

    m2m_changed.connect(changed, sender=through, weak=False, dispatch_uid=f"audit-{field}-{through.__name__}")


def audit_accounts() -> None:
    """Listen to everything that accounts is responsible for."""
    user_model = get_user_model()
    audit(
        user_model,
        AuditedModel(
            "user",
            label=lambda row: row.get_username(),
            user_id=lambda row: row.pk,
            left_out=frozenset({"last_login", "date_joined"}),
            secret=frozenset({"password"}),
        ),
    )
    audit(
        UserPolicy,
        AuditedModel(
            "user_policy", label=lambda row: row.user.get_username(), user_id=lambda row: row.user_id
        ),
    )
    audit(
        ApiKey,
        AuditedModel(
            "api_key",
            label=str,
            user_id=lambda row: row.user_id,
            left_out=frozenset({"digest", "last_used_at", "created_at"}),
        ),
    )
    audit(
        PasswordLink,
        AuditedModel(
            "password_link",
            label=lambda row: row.user.get_username(),
            user_id=lambda row: row.user_id,
            left_out=frozenset({"digest", "password_mark", "made_by", "created_at"}),
        ),
    )
    audit(Team, AuditedModel("team", label=str, left_out=frozenset({"created_at"})))
    audit(Group, AuditedModel("group", label=str))
    audit_relation(user_model.groups.through, field="groups")
    audit_relation(user_model.user_permissions.through, field="user_permissions")
    audit_relation(Group.permissions.through, field="permissions")


def _before_save(sender: Any, instance: Any, raw: bool = False, **_: Any) -> None:
    is_known = not raw and instance.pk is not None and not instance._state.adding
    setattr(instance, _BEFORE, _columns(sender, instance.pk) if is_known else None)


def _after_save(sender: Any, instance: Any, created: bool, raw: bool = False, **_: Any) -> None:
    before: dict[str, Any] | None = instance.__dict__.pop(_BEFORE, None)
    if raw:
        return
    after = _columns(sender, instance.pk) or {}
    changes = {
        name: [None if before is None else before.get(name), value]
        for name, value in after.items()
        if (before.get(name) != value if before is not None else value not in (None, "", [], False))
    }
    if changes or created:
        action = ChangeAction.CREATED if created else ChangeAction.CHANGED
        _record(instance, _audited[sender], action, changes)


def _before_delete(sender: Any, instance: Any, **_: Any) -> None:
    setattr(instance, _BEFORE, _columns(sender, instance.pk))


def _after_delete(sender: Any, instance: Any, **_: Any) -> None:
    before: dict[str, Any] = instance.__dict__.pop(_BEFORE, None) or {}
    changes = {name: [value, None] for name, value in before.items() if value not in (None, "", [], False)}
    _record(instance, _audited[sender], ChangeAction.DELETED, changes)


def _columns(model: Any, pk: Any) -> dict[str, Any] | None:
    """What the database holds of a row now, as JSON has it; the row is locked where that is possible,
    so that nobody changes it between the reading and the write that follows."""
    audited = _audited[model]
    names = [
        field.attname
        for field in model._meta.concrete_fields
        if not field.primary_key and field.name not in audited.left_out
    ]
    rows = model._base_manager.filter(pk=pk)
    if connection.in_atomic_block:
        rows = rows.select_for_update()
    found = rows.values(*names).first()
    return None if found is None else {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    """A column's value for a JSON column; a text longer than any of ours is cut."""
    if isinstance(value, str):
        return value[:MAX_VALUE_LENGTH]
    return json.loads(json.dumps(value, cls=DjangoJSONEncoder))


def _record(
    instance: Any, audited: AuditedModel, action: ChangeAction, changes: Mapping[str, list[Any]]
) -> None:
    shown = {
        name: [None if value is None else SECRET for value in pair] if name in audited.secret else pair
        for name, pair in changes.items()
    }
    with transaction.atomic():
        change_record(
            action=action,
            kind=audited.kind,
            subject_id=instance.pk,
            label=audited.label(instance),
            user_id=audited.user_id(instance),
            changes=shown,
        )
