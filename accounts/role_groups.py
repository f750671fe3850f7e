"""Makes the groups of the roles what `accounts.roles` says, and puts users into them.

A migration would freeze the rights of its day, and a table that came later would be nobody's. So each
`migrate` writes them anew, for each app when its permissions are there. Doing it again changes nothing.
What the code decides is no administrator's change, so the history does not tell of it.

Somebody may have a group called "operator" from before there were roles. Writing a role's rights into it
would take away what it had and make its members more than they were. So `RoleGroup` says which groups are
ours; another one of such a name keeps rights and members under a new name, which the log and the history
tell.
"""

from __future__ import annotations

import logging
from itertools import count
from typing import Any

from django.apps import AppConfig
from django.apps import apps as all_apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import AbstractUser, Group, Permission
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.models import Q

from accounts import services
from accounts.models import RoleGroup
from accounts.roles import ROLE_RIGHTS, Role, role_permissions

logger = logging.getLogger(__name__)

# Any number that no other lock of this database uses: "roles" in ASCII.
_ROLES_LOCK = 0x726F6C6573
_LABELS = frozenset(label.partition(".")[0] for label in ROLE_RIGHTS)


def role_groups_ensure(sender: AppConfig | None = None, *, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """A receiver of `post_migrate`: the groups, with exactly their permissions on the sender's tables.
    Without a sender: on all."""
    labels = _LABELS if sender is None else _LABELS & {sender.label}
    if not labels or not router.allow_migrate_model(using, Group):
        return
    for label in labels:
        create_permissions(all_apps.get_app_config(label), verbosity=0, interactive=False, using=using)
    with transaction.atomic(using=using):
        for group in _role_groups(using):
            for label in labels:
                _set_rights(group, label, using)


def _role_groups(using: str) -> list[Group]:
    """The group of each role, made where there is none. One `migrate` at a time does it."""
    made = RoleGroup.objects.using(using)
    with connections[using].cursor() as cursor:
        if RoleGroup._meta.db_table not in connections[using].introspection.table_names(cursor):
            return []  # migrated up to an earlier point only
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ROLES_LOCK])
    by_role = {one.role: one.group for one in made.select_related("group")}
    for role in Role:
        group = by_role.get(role.value)
        if group is not None and group.name == role.value:
            continue
        _put_aside(role, using)
        if group is None:
            group = by_role[role.value] = Group(name=role.value)
            Group.objects.using(using).bulk_create([group])
            made.create(role=role.value, group=group)
        else:
            group.name = role.value
            group.save(using=using, update_fields=["name"])
    return [by_role[role.value] for role in Role]


def _put_aside(role: Role, using: str) -> None:
    """Somebody's own group of a role's name keeps all that it has, and gets another name."""
    groups = Group.objects.using(using)
    own = groups.filter(name=role.value).first()
    if own is None:
        return
    names = (f"{role.value} (own{'' if number == 1 else f' {number}'})" for number in count(1))
    own.name = next(name for name in names if not groups.filter(name=name).exists())
    own.save(using=using, update_fields=["name"])
    logger.warning(
        "the group %r was somebody's own but has a role's name: it is %r now, with its members and rights",
        role.value,
        own.name,
    )


def role_set(*, user: AbstractUser, role: Role) -> None:
    """Give a user this role and no other; groups that are no role stay. A superuser stays one."""
    with transaction.atomic():
        by_role = {one.role: one.group for one in RoleGroup.objects.select_related("group")}
        user.groups.remove(*(group for name, group in by_role.items() if name != role.value))
        user.groups.add(by_role[role.value])
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
