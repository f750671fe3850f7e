"""The groups of the roles: there after each migration, exactly as the code says."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command

from accounts.models import AdministrativeChange, RoleGroup
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import ROLE_RIGHTS, Role, role_permissions

pytestmark = pytest.mark.django_db
# Sessions are secrets, and kinds of content are Django's own affair.
OF_NOBODY = {"sessions.session", "contenttypes.contenttype"}


def rights(role: Role) -> set[str]:
    found = Permission.objects.filter(group__name=role.value).select_related("content_type")
    return {f"{one.content_type.app_label}.{one.codename}" for one in found}


@pytest.mark.parametrize("role", Role)
def test_they_have_exactly_what_the_table_says_also_after_somebody_changed_them(role) -> None:
    role_groups_ensure()
    assert rights(role) == role_permissions(role)
    group = Group.objects.get(name=role.value)
    group.permissions.clear()
    group.permissions.add(Permission.objects.get(codename="delete_session"), *Permission.objects.all()[:3])
    for _ in range(2):
        for config in apps.get_app_configs():
            role_groups_ensure(config)
    assert rights(role) - {"sessions.delete_session"} == role_permissions(role)


def test_the_table_has_every_model() -> None:
    assert {model._meta.label_lower for model in apps.get_models()} == set(ROLE_RIGHTS) | OF_NOBODY


def test_an_auditor_may_only_look_and_not_at_texts() -> None:
    found = role_permissions(Role.AUDITOR)
    assert all(".view_" in name for name in found)
    assert "inference.view_generationtext" not in found
    assert role_permissions(Role.KEY_OWNER) == frozenset()


def test_a_role_takes_the_place_of_another_and_is_in_the_history() -> None:
    role_groups_ensure()
    user = User.objects.create_user("ann")
    own = Group.objects.create(name="of our own")
    user.groups.add(own)
    role_set(user=user, role=Role.OPERATOR)
    call_command("role", "ann", "auditor", verbosity=0)
    user.refresh_from_db()
    assert (user.is_staff, {group.name for group in user.groups.all()}) == (True, {"of our own", "auditor"})
    role_set(user=user, role=Role.KEY_OWNER)
    assert not User.objects.get(pk=user.pk).is_staff
    assert AdministrativeChange.objects.filter(
        subject_kind="user", changes__groups=[None, ["auditor"]]
    ).exists()


def test_a_superuser_stays_one() -> None:
    role_groups_ensure()
    root = User.objects.create_superuser("root")
    role_set(user=root, role=Role.KEY_OWNER)
    assert (root.is_staff, root.is_superuser) == (True, True)


def test_nobody_of_that_name_is_told() -> None:
    with pytest.raises(CommandError, match="no user 'bob'"):
        call_command("role", "bob", "auditor")


class TestAGroupOfSomebodysOwn:
    """One that had a role's name before there were roles."""

    @pytest.fixture
    def own(self) -> Group:
        Group.objects.filter(name__in=[role.value for role in Role]).delete()
        group = Group.objects.create(name="operator")
        group.permissions.add(*Permission.objects.filter(codename__in=("view_team", "delete_session")))
        user = User.objects.create_user("ann", is_staff=True)
        user.groups.add(group)
        return group

    def test_keeps_members_and_rights_and_gives_none(self, own, caplog) -> None:
        for _ in range(2):
            role_groups_ensure()
        own.refresh_from_db()
        assert own.name == "operator (own)"
        ann = User.objects.get(username="ann")
        assert ann.get_all_permissions() == {"accounts.view_team", "sessions.delete_session"}
        made = Group.objects.get(name="operator")
        assert (made.pk != own.pk, made.user_set.count()) == (True, 0)
        assert rights(Role.OPERATOR) == role_permissions(Role.OPERATOR)
        change = AdministrativeChange.objects.get(
            subject_id=own.pk, changes__has_key="name", action="changed"
        )
        assert (change.subject_kind, change.changes) == ("group", {"name": ["operator", "operator (own)"]})
        assert [record.args[1] for record in caplog.records] == ["operator (own)"]

    def test_whose_new_name_is_taken_gets_the_next_one(self, own) -> None:
        Group.objects.create(name="operator (own)")
        role_groups_ensure()
        own.refresh_from_db()
        assert own.name == "operator (own 2)"

    def test_is_told_from_the_groups_of_versions_that_did_not_write_down_theirs(self, own) -> None:
        """What the migration takes for ours: exactly a role's rights on the tables of its day."""
        from importlib import import_module

        from django.db import connection

        adopt = import_module("accounts.migrations.0015_role_groups").adopt_groups
        role_groups_ensure()
        before = {role: Group.objects.get(name=role.value).pk for role in Role}
        RoleGroup.objects.all().delete()
        auditors = Group.objects.get(name="auditor")
        auditors.permissions.remove(Permission.objects.get(codename="view_team"))
        Group.objects.get(name="key owner").permissions.add(Permission.objects.get(codename="view_team"))
        with connection.schema_editor() as editor:
            adopt(apps, editor)
        assert set(RoleGroup.objects.values_list("role", flat=True)) == {"administrator", "operator"}
        role_groups_ensure()
        after = {role: Group.objects.get(name=role.value).pk for role in Role}
        assert {role for role in Role if after[role] != before[role]} == {Role.AUDITOR, Role.KEY_OWNER}

    def test_a_role_that_was_renamed_is_the_role_again(self) -> None:
        role_groups_ensure()
        group = Group.objects.get(name="auditor")
        Group.objects.filter(pk=group.pk).update(name="watcher")
        role_groups_ensure()
        group.refresh_from_db()
        assert group.name == "auditor"
