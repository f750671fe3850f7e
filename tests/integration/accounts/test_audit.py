"""The history of changes: who, by which door, what from and to; never a secret."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse

from accounts import services
from accounts.actors import Actor, Door, acting, current_actor
from accounts.audit import SECRET
from accounts.contracts import KeyPriority, Limits, Policy
from accounts.models import AdministrativeChange, Team
from tests.integration.accounts.test_admin import ADD, POLICY_FORM, add_form, page

pytestmark = pytest.mark.django_db

ROOT = Actor(Door.API, 1, "root", key_id=2, request_id="r")


def history(kind: str = "") -> list[AdministrativeChange]:
    """Oldest first."""
    rows = AdministrativeChange.objects.order_by("id")
    return list(rows.filter(subject_kind=kind) if kind else rows)


class TestActors:
    def test_outside_of_a_request_it_is_who_runs_the_process(self) -> None:
        actor = current_actor()
        assert (actor.door, actor.user_id) == (Door.COMMAND, None)
        assert actor.name

    def test_a_door_names_its_actor_for_as_long_as_it_is_open(self, ann) -> None:
        with acting(lambda: ROOT):
            services.api_key_create(user=ann, name="x")
        services.api_key_create(user=ann, name="y")
        by_root, by_process = history("api_key")
        assert (by_root.door, by_root.actor_user_id, by_root.actor_name) == ("api", 1, "root")
        assert (by_root.actor_key_id, by_root.request_id) == (2, "r")
        assert by_process.door == "command"


class TestKeys:
    def test_a_new_key_tells_what_it_was_given(self, ann, key) -> None:
        row, minted = key
        (change,) = history("api_key")
        assert (change.action, change.subject_id, change.subject_user_id) == ("created", row.pk, ann.pk)
        assert change.subject_label == f"laptop ({minted.visible_prefix}…{minted.last4})"
        assert change.changes["name"] == [None, "laptop"]
        assert change.changes["scopes"] == [None, ["inference", "usage"]]

    def test_a_change_tells_what_was_and_what_is_and_nothing_else(self, key) -> None:
        row, _ = key
        services.api_key_update(
            key=row,
            name="desk",
            expires_at=None,
            policy=Policy(priority=KeyPriority.BATCH),
            limits=Limits(max_tokens_per_minute=200, allowed_models=("a", "b")),
        )
        change = history("api_key")[-1]
        assert change.action == "changed"
        assert change.changes == {
            "name": ["laptop", "desk"],
            "priority": ["", "batch"],
            "max_tokens_per_minute": [None, 200],
            "allowed_models": [[], ["a", "b"]],
        }

    def test_what_changes_nothing_is_not_told(self, key) -> None:
        row, _ = key
        services.api_key_update(key=row, name=row.name, expires_at=row.expires_at)
        services.api_key_revoke(key=row)
        services.api_key_revoke(key=row)
        assert [change.action for change in history("api_key")] == ["created", "changed"]
        assert history("api_key")[-1].changes["revoked_at"][0] is None

    def test_a_replaced_key_is_two_changes(self, key) -> None:
        row, _ = key
        new, _ = services.api_key_rotate(key=row)
        _, made, ended = history("api_key")
        assert made.changes["rotated_from_id"] == [None, row.pk]
        assert (made.subject_id, ended.subject_id) == (new.pk, row.pk)

    def test_a_deleted_key_leaves_its_history(self, key) -> None:
        row, _ = key
        services.api_key_revoke(key=row)
        pk = row.pk
        services.api_key_delete(key=row)
        assert [change.action for change in history("api_key")] == ["created", "changed", "deleted"]
        assert history("api_key")[-1].subject_id == pk

    def test_what_is_rolled_back_was_never_there(self, ann) -> None:
        with pytest.raises(RuntimeError), transaction.atomic():
            services.api_key_create(user=ann, name="x")
            raise RuntimeError
        assert history("api_key") == []


class TestTheOtherTables:
    def test_teams_policies_and_membership(self, ann) -> None:
        team = services.team_create(name="search", limits=Limits(max_requests_per_minute=5))
        services.user_policy_set(user=ann, policy=Policy(has_session_trust=True))
        services.user_team_set(user=ann, team=team)
        assert history("team")[0].changes == {
            "name": [None, "search"],
            "max_requests_per_minute": [None, 5],
            "budget_alert_percent": [None, 80],
        }
        made, joined = history("user_policy")
        assert (made.subject_user_id, made.changes["has_session_trust"]) == (ann.pk, [None, True])
        assert joined.changes == {"team_id": [None, team.pk]}

    def test_a_password_is_only_said_to_have_changed(self, ann) -> None:
        ann.set_password("correct horse battery staple")
        ann.save()
        assert history("user")[-1].changes == {"password": [SECRET, SECRET]}
        assert ann.password not in repr([change.changes for change in history()])

    def test_signing_in_is_no_change(self, client: Client, ann) -> None:
        client.force_login(ann)
        assert [change.action for change in history("user")] == ["created"]

    def test_groups_and_permissions(self, ann) -> None:
        group = Group.objects.create(name="operators")
        ann.groups.add(group)
        ann.groups.clear()
        group.permissions.set(Permission.objects.filter(codename="view_apikey"))
        changes = [change.changes for change in history("user")[1:]]
        assert changes == [{"groups": [None, ["operators"]]}, {"groups": [["operators"], None]}]
        assert "view" in repr(history("group")[-1].changes["permissions"][1])


class TestDoors:
    def test_the_admin_pages_name_who_is_signed_in(self, admin_client, admin_user, ann) -> None:
        admin_client.post(ADD, add_form(admin_client, ann))
        (made,) = history("api_key")
        assert (made.door, made.actor_user_id) == ("admin", admin_user.pk)
        assert made.actor_name == admin_user.username
        admin_client.post(page("revoke", ann.api_keys.get()))
        assert history("api_key")[-1].actor_user_id == admin_user.pk

    def test_djangos_own_user_page_is_heard_too(self, admin_client, admin_user, ann) -> None:
        url = reverse("admin:auth_user_change", args=[ann.pk])
        sent = {"username": "ann", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", **POLICY_FORM}
        assert admin_client.post(url, {**sent, "policy-0-max_tokens_per_day": "9"}).status_code == 302
        assert history("user")[-1].changes == {"is_active": [True, False]}
        (policy,) = history("user_policy")
        assert (policy.changes["max_tokens_per_day"], policy.actor_user_id) == ([None, 9], admin_user.pk)

    def test_commands(self) -> None:
        call_command("api_key_create", "--user", "bob", "--name", "x", stdout=StringIO())
        user, made = history()
        assert (user.subject_kind, user.subject_label, user.door) == ("user", "bob", "command")
        assert (made.subject_kind, made.door) == ("api_key", "command")
        call_command("api_key_revoke", str(made.subject_id), stdout=StringIO())
        assert history()[-1].action == "changed"

    def test_a_user_made_by_djangos_own_command(self) -> None:
        call_command("createsuperuser", "--noinput", username="boss", email="b@x.org", stdout=StringIO())
        (made,) = history("user")
        assert made.changes["is_superuser"] == [None, True]
        assert made.changes["password"] == [None, SECRET]


class TestHistoryPage:
    def test_it_is_read_and_not_written(self, admin_client, ann, key) -> None:
        change = history("api_key")[0]
        url = reverse("admin:accounts_administrativechange_change", args=[change.pk])
        text = admin_client.get(url).content.decode()
        assert "laptop" in text
        assert admin_client.post(url, {"actor_name": "nobody"}).status_code == 403
        for name in ("add", "delete"):
            arguments = [] if name == "add" else [change.pk]
            page_url = reverse(f"admin:accounts_administrativechange_{name}", args=arguments)
            assert admin_client.post(page_url, {"post": "yes"}).status_code == 403
        assert AdministrativeChange.objects.filter(pk=change.pk).exists()

    @pytest.mark.parametrize("num_rows", [5, 150])
    def test_the_list_takes_few_queries(self, admin_client, num_rows, django_assert_max_num_queries) -> None:
        for number in range(num_rows):
            Team.objects.create(name=f"team {number}")
        with django_assert_max_num_queries(7):
            url = reverse("admin:accounts_administrativechange_changelist")
            assert admin_client.get(url).status_code == 200

    def test_staff_without_the_permission_see_nothing_of_it(self, client) -> None:
        client.force_login(User.objects.create_user("member", is_staff=True))
        assert client.get(reverse("admin:accounts_administrativechange_changelist")).status_code == 403
