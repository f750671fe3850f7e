"""Makes the groups of the roles what `accounts.roles` says, and puts users into them.

A migration would freeze the rights of its day, and a table that came later would be nobody's. So each
`migrate` writes them anew, for each app when its permissions are there. Doing it again changes nothing.
What the code decides is no administrator's change, so the history does not tell of it.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.apps import apps as all_apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import AbstractUser, Group, Permission
from django.db import DEFAULT_DB_ALIAS, router, transaction
from django.db.models import Q

from accounts import services
from accounts.roles import ROLE_RIGHTS, Role, role_permissions

_LABELS = frozenset(label.partition(".")[0] for label in ROLE_RIGHTS)


def role_groups_ensure(sender: AppConfig | None = None, *, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """A receiver of `post_migrate`: the groups, with exactly their permissions on the sender's tables.
    Without a sender: on all."""
    labels = _LABELS if sender is None else _LABELS & {sender.label}
    if not labels or not router.allow_migrate_model(using, Group):
        return
    for label in labels:
        create_permissions(all_apps.get_app_config(label), verbosity=0, interactive=False, using=using)
    groups = Group.objects.using(using)
    with transaction.atomic(using=using):
        groups.bulk_create([Group(name=role.value) for role in Role], ignore_conflicts=True)
        for group in groups.filter(name__in=[role.value for role in Role]):
            for label in labels:
                _set_rights(group, label, using)


def role_set(*, user: AbstractUser, role: Role) -> None:
    """Give a user this role and no other; groups that are no role stay. A superuser stays one."""
    with transaction.atomic():
        role_groups = Group.objects.filter(name__in=[one.value for one in Role])
        user.groups.remove(*role_groups.exclude(name=role.value))
        user.groups.add(role_groups.get(name=role.value))
        if user.is_staff != (role.is_staff or user.is_superuser):
            user.is_staff = role.is_staff or user.is_superuser
            user.save(update_fields=["is_staff"])
        transaction.on_commit(services.users_forget)


def _set_rights(group: Group, label: str, using: str) -> None:
    wanted = role_permissions(Role(group.name), app_label=label)
    named = Q(pk__in=[])
    for name in wanted:
        named |= Q(codename=name.partition(".")[2])
    of_app = Permission.objects.using(using).filter(content_type__app_label=label)
    wanted_ids = set(of_app.filter(named).values_list("pk", flat=True))
    links = Group.permissions.through.objects.using(using)
    has = links.filter(group_id=group.pk, permission__content_type__app_label=label)
    has.exclude(permission_id__in=wanted_ids).delete()
    links.bulk_create(
        [links.model(group_id=group.pk, permission_id=pk) for pk in wanted_ids], ignore_conflicts=True
    )
