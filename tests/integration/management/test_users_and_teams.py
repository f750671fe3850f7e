"""/api/users, /api/teams and /api/changes."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from accounts import services
from accounts.models import AdministrativeChange, Team
from tests.integration.management.conftest import error_of

pytestmark = pytest.mark.django_db


class TestUsers:
    def test_made_found_and_decided_about(self, manager) -> None:
        team = services.team_create(name="search")
        body = {
            "username": "zoë",
            "email": "zoe@example.org",
            "team_id": team.pk,
            "priority": "batch",
            "limits": {"max_requests_per_minute": 7},
            "max_own_keys": 3,
            "max_own_key_days": 30,
        }
        made = manager.post("/users", body)
        assert made.status_code == 201
        shown = made.json()
        assert {name: shown[name] for name in body if name != "limits"} == {
            name: value for name, value in body.items() if name != "limits"
        }
        assert (shown["limits"]["max_requests_per_minute"], shown["team_name"]) == (7, "search")
        user = User.objects.get(username="zoë")
        assert not user.has_usable_password()
        assert manager.get(f"/users/{user.pk}").json() == shown
        assert [one["id"] for one in manager.get("/users?username=zoë").json()["data"]] == [user.pk]
        assert [one["id"] for one in manager.get(f"/users?team_id={team.pk}").json()["data"]] == [user.pk]
        changed = manager.patch(f"/users/{user.pk}", {"team_id": None, "is_active": False}).json()
        assert (changed["team_id"], changed["is_active"], changed["max_own_keys"]) == (None, False, 3)
        assert [one["id"] for one in manager.get("/users?is_active=false").json()["data"]] == [user.pk]

    @pytest.mark.parametrize(
        "field", ["is_superuser", "is_staff", "password", "groups", "id", "user_permissions", "date_joined"]
    )
    def test_nobody_becomes_an_administrator_here(self, manager, bob, field) -> None:
        for response in (
            manager.post("/users", {"username": "eve", field: True}),
            manager.patch(f"/users/{bob.pk}", {field: True}),
        ):
            assert error_of(response) == (400, "invalid_value", field)
        assert not User.objects.filter(username="eve").exists()

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({}, "username"),
            ({"username": "a b"}, "username"),
            ({"username": "BOB"}, "username"),
            ({"username": "x" * 151}, "username"),
            ({"username": "x", "email": "no"}, "email"),
            ({"username": "x", "team_id": 999999}, "team_id"),
            ({"username": "x", "max_own_keys": 100_000}, "max_own_keys"),
            ({"username": "x", "max_own_key_days": 0}, "max_own_key_days"),
        ],
        ids=repr,
    )
    def test_what_is_wrong_is_named_and_leaves_nothing(self, manager, bob, body, param) -> None:
        num_users = User.objects.count()
        assert error_of(manager.post("/users", body)) == (400, "invalid_value", param)
        assert User.objects.count() == num_users

    def test_administrators_are_left_to_the_admin(self, manager, admin_user, admin_client) -> None:
        for body in ({"is_active": False}, {"email": "x@example.org"}):
            assert error_of(manager.patch(f"/users/{admin_user.pk}", body))[0] == 403
        assert manager.patch(f"/users/{admin_user.pk}", {"max_own_keys": 1}).status_code == 200
        boss = User.objects.create_superuser("boss")
        url = f"/api/users/{boss.pk}"
        assert (
            admin_client.patch(url, {"is_active": False}, content_type="application/json").status_code == 200
        )

    def test_a_user_who_is_switched_off_is_forgotten_at_once(self, manager, program) -> None:
        caller = program("bob")
        assert caller.get("/me").status_code == 200
        manager.patch(f"/users/{caller.row.user_id}", {"is_active": False})
        assert error_of(caller.get("/me"))[:2] == (401, "account_inactive")

    def test_two_who_edit_the_same_user(self, manager, bob) -> None:
        etag = manager.get(f"/users/{bob.pk}")["ETag"]
        assert manager.patch(f"/users/{bob.pk}", {"priority": "batch"}).status_code == 200
        late = manager.patch(f"/users/{bob.pk}", {"priority": None}, **{"if-match": etag})
        assert error_of(late)[:2] == (412, "precondition_failed")

    def test_what_is_not_there_is_404_and_what_is_not_offered_405(self, manager, bob) -> None:
        assert error_of(manager.get("/users/999999"))[:2] == (404, "not_found")
        assert error_of(manager.get("/users/x"))[:2] == (404, "not_found")
        refused = manager.delete(f"/users/{bob.pk}")
        assert error_of(refused)[:2] == (405, "method_not_allowed")
        assert "PATCH" in refused["Allow"]
        assert error_of(manager.call("OPTIONS", "/users"))[:2] == (405, "method_not_allowed")
        assert error_of(manager.get("/nothing"))[:2] == (404, "not_found")


class TestTeams:
    def test_made_changed_and_deleted_when_nobody_is_in_it(self, manager, bob) -> None:
        made = manager.post("/teams", {"name": "search", "limits": {"max_tokens_per_day": 10}})
        assert made.status_code == 201
        team_id = made.json()["id"]
        changed = manager.patch(f"/teams/{team_id}", {"priority": "interactive"}).json()
        assert (changed["name"], changed["limits"]["max_tokens_per_day"]) == ("search", 10)
        services.user_team_set(user=bob, team=Team.objects.get())
        assert error_of(manager.delete(f"/teams/{team_id}"))[0] == 400
        services.user_team_set(user=bob, team=None)
        assert manager.delete(f"/teams/{team_id}").status_code == 204
        assert error_of(manager.delete(f"/teams/{team_id}"))[0] == 404

    def test_a_name_is_one_teams(self, manager) -> None:
        assert manager.post("/teams", {"name": "x"}).status_code == 201
        assert error_of(manager.post("/teams", {"name": "x"})) == (400, "invalid_value", "name")
        assert [one["name"] for one in manager.get("/teams?name=x").json()["data"]] == ["x"]


class TestChanges:
    def test_who_did_what_by_which_key_and_request(self, manager) -> None:
        request_id = "01234567-89ab-cdef-0123-456789abcdef"
        made = manager.post("/teams", {"name": "x"}, **{"x-request-id": request_id})
        assert made["x-request-id"] == request_id
        (change,) = manager.get("/changes?subject_kind=team").json()["data"]
        assert change["changes"]["name"] == [None, "x"]
        assert (change["actor_name"], change["actor_key_id"]) == ("manager", manager.row.pk)
        assert (change["door"], change["request_id"]) == ("api", request_id)

    def test_filters(self, manager, bob) -> None:
        services.api_key_create(user=bob, name="x")
        manager.post("/teams", {"name": "x"})
        of_bob = manager.get(f"/changes?subject_user_id={bob.pk}").json()["data"]
        assert [change["subject_kind"] for change in of_bob] == ["api_key", "user"]
        by_manager = manager.get(f"/changes?actor_user_id={manager.row.user_id}").json()["data"]
        assert [change["subject_kind"] for change in by_manager] == ["team"]
        assert error_of(manager.get("/changes?action=x"))[2] == "action"

    def test_a_refused_change_leaves_no_history(self, manager) -> None:
        num_changes = AdministrativeChange.objects.count()
        manager.post("/teams", {"name": ""})
        manager.post("/users", {"username": "x", "team_id": 999_999})
        assert AdministrativeChange.objects.count() == num_changes
