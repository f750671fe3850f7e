"""/api/hook-policies and /api/webhooks: the services over HTTP, and what the history and the answers show."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import services as accounts
from accounts.scopes import Scope
from hooks.models import HookPolicy, Webhook
from inference.models import ModelRow
from tests.integration.management.conftest import Program, error_of

pytestmark = pytest.mark.django_db

SECRET = "a-secret-of-some-length"
TAG = {"type": "tag", "name": "seen"}


@pytest.fixture
def keeper(program) -> Program:
    return program("keeper", frozenset({Scope.POLICIES}))


def body_for(name: str = "p", **members: Any) -> dict[str, Any]:
    return {"name": name, "point": "before_chat_completion", "actions": [TAG], **members}


def webhook_for(name: str = "w", **members: Any) -> dict[str, Any]:
    return {"name": name, "url": "https://hook.example/path", "secret": SECRET, **members}


def made(keeper: Program, name: str = "p", **members: Any) -> dict[str, Any]:
    response = keeper.post("/hook-policies", body_for(name, **members))
    assert response.status_code == 201, response.content
    return response.json()


class TestPolicies:
    def test_all_of_it_is_kept_and_shown(self, keeper) -> None:
        team = accounts.team_create(name="t")
        ModelRow.objects.create(model_id="tiny", source="/m.gguf")
        body = {
            "name": "all of it",
            "description": "why\nand how",
            "order": 5,
            "mode": "observe",
            "is_required": False,
            "scope": {"team_ids": [team.pk], "models": ["tiny"]},
            "point": "mid_generation",
            "condition": "signals.num_repetitions > 3",
            "actions": [{"type": "stop_generation", "reason": "stop"}, {**TAG, "value": "x"}],
            "deadline_s": 0.5,
            "on_failure": "open",
            "window": {"window_tokens": 32},
            "held_chars": 10,
        }

        shown = made(keeper, **body)

        assert shown["scope"] == {"team_ids": [team.pk], "user_ids": [], "key_ids": [], "models": ["tiny"]}
        assert shown["window"]["window_tokens"] == 32
        for name in body.keys() - {"scope", "window"}:
            assert shown[name] == body[name]
        assert (shown["fault"], shown["missing"], shown["revision"]) == ("", [], 1)
        assert keeper.get(f"/hook-policies/{shown['id']}").json() == shown

    def test_one_that_says_little_is_off_and_as_usual(self, keeper) -> None:
        shown = made(keeper)
        assert (shown["mode"], shown["is_required"], shown["on_failure"]) == ("off", True, "closed")
        assert (shown["order"], shown["deadline_s"], shown["window"]) == (100, 1.0, {})

    @pytest.mark.parametrize(
        ("param", "change"),
        [
            ("name", {"name": ""}),
            ("point", {"point": "somewhere"}),
            ("mode", {"mode": "on"}),
            ("colour", {"colour": "red"}),
            ("id", {"id": 5}),
            ("revision", {"revision": 5}),
            ("scope.teams", {"scope": {"teams": [1]}}),
            ("scope.team_ids", {"scope": {"team_ids": [10**9]}}),
            ("scope.team_ids.0", {"scope": {"team_ids": [0]}}),
            ("scope.key_ids.0", {"scope": {"key_ids": [2**63]}}),
            ("scope.models", {"scope": {"models": ["nothing"]}}),
            ("scope", {"scope": []}),
            ("actions", {"actions": {}}),
            ("actions", {"actions": []}),
            ("actions", {"actions": "[]"}),
            ("actions[0]", {"actions": [None]}),
            ("actions[0].type", {"actions": [{"type": "stop_generation"}]}),
            ("actions[0].status", {"actions": [{"type": "deny", "message": "x", "status": 200}]}),
            ("actions[1].name", {"actions": [TAG, {"type": "tag"}]}),
            ("actions[0].webhook_id", {"actions": [{"type": "call_webhook", "webhook_id": 99}]}),
            ("window.window_tokens", {"window": {"window_tokens": 1.5}}),
            ("window", {"window": {"other": 1}}),
            ("window", {"window": []}),
            ("condition", {"condition": "text.contains("}),
            ("condition", {"condition": "signals.entropy > 1.0"}),
            ("condition", {"condition": "1 + 1"}),
            ("condition", {"condition": "x" * 10_000}),
            ("deadline_s", {"deadline_s": 0}),
            ("held_chars", {"held_chars": -1}),
            ("order", {"order": 10**12}),
        ],
    )
    def test_what_cannot_be_is_refused_by_its_field(self, keeper, param, change) -> None:
        response = keeper.post("/hook-policies", body_for(**change))

        status, _, told = error_of(response)
        assert (status, told) == (400, param)
        assert not HookPolicy.objects.exists()

    def test_bodies_that_are_none(self, keeper) -> None:
        for body in (b"", b"[]", b"null", b"{", b'{"name": "a"}', b'{"name":"a","point":"terminal"}'):
            assert error_of(keeper.post("/hook-policies", body))[0] == 400

    def test_what_is_left_out_of_a_change_stays(self, keeper) -> None:
        shown = made(keeper, description="d", scope={"user_ids": [keeper.row.user_id]})
        path = f"/hook-policies/{shown['id']}"

        changed = keeper.patch(path, {"mode": "enforce", "order": 1}).json()

        assert changed == {
            **shown,
            "mode": "enforce",
            "order": 1,
            "revision": 2,
            "updated_at": changed["updated_at"],
        }
        changed = keeper.patch(path, {"scope": {"key_ids": [keeper.row.pk]}}).json()
        assert changed["scope"]["user_ids"] == [keeper.row.user_id]
        assert changed["scope"]["key_ids"] == [keeper.row.pk]

    def test_another_point_is_one_for_the_actions_too(self, keeper) -> None:
        shown = made(keeper, actions=[{"type": "deny", "message": "no"}])
        path = f"/hook-policies/{shown['id']}"

        assert error_of(keeper.patch(path, {"point": "terminal"}))[2] == "actions[0].type"
        both = {"point": "terminal", "actions": [TAG]}
        assert keeper.patch(path, both).json()["point"] == "terminal"

    def test_a_name_that_is_taken_is_a_conflict(self, keeper) -> None:
        made(keeper, "a")
        assert error_of(keeper.post("/hook-policies", body_for("a"))) == (409, "conflict", "name")

    def test_a_change_is_made_to_the_state_that_it_names(self, keeper) -> None:
        shown = made(keeper)
        path = f"/hook-policies/{shown['id']}"
        etag = keeper.get(path)["ETag"]
        assert keeper.patch(path, {"order": 1}, **{"if-match": etag}).status_code == 200
        assert error_of(keeper.patch(path, {"order": 2}, **{"if-match": etag}))[0] == 412
        assert error_of(keeper.call("DELETE", path, **{"if-match": etag}))[0] == 412
        fresh = keeper.get(path)["ETag"]
        assert keeper.call("DELETE", path, **{"if-match": fresh}).status_code == 204
        assert error_of(keeper.get(path))[0] == 404
        assert error_of(keeper.delete(path))[0] == 404
        assert error_of(keeper.patch(path, {"order": 1}))[0] == 404

    def test_a_list_in_the_order_of_application_by_pages_and_filters(self, keeper) -> None:
        for name, order in (("c", 9), ("a", 1), ("d", 9), ("b", 2)):
            made(keeper, name, order=order, mode="enforce" if name in "ad" else "off")

        names, after = [], ""
        while True:
            page = keeper.get(f"/hook-policies?limit=3{after}").json()
            names += [one["name"] for one in page["data"]]
            after = f"&after={page['last_id']}"
            if not page["has_more"]:
                break
        assert names == ["a", "b", "c", "d"]
        on = keeper.get("/hook-policies?mode=enforce&point=before_chat_completion").json()["data"]
        assert [one["name"] for one in on] == ["a", "d"]
        assert [one["name"] for one in keeper.get("/hook-policies?name=b").json()["data"]] == ["b"]
        assert error_of(keeper.get("/hook-policies?after=99999999"))[2] == "after"
        assert error_of(keeper.get("/hook-policies?other=1"))[2] == "other"
        assert error_of(keeper.get("/hook-policies?mode=on"))[2] == "mode"

    def test_a_list_costs_as_many_queries_however_long_it_is(self, keeper) -> None:
        def num_queries() -> int:
            with CaptureQueriesContext(connection) as caught:
                assert keeper.get("/hook-policies").status_code == 200
            return len(caught)

        scope = {"user_ids": [keeper.row.user_id]}
        made(keeper, "first", scope=scope)
        few = num_queries()
        for number in range(10):
            made(keeper, f"p{number}", scope=scope)
        assert num_queries() == few

    def test_all_are_put_in_order(self, keeper) -> None:
        ids = [made(keeper, name)["id"] for name in "abc"]
        wanted = [ids[2], ids[0], ids[1]]

        assert keeper.post("/hook-policies/reorder", {"ids": wanted}).status_code == 204
        assert [one["id"] for one in keeper.get("/hook-policies").json()["data"]] == wanted
        for wrong in (ids[:2], [*ids, ids[0]], [], [*ids, 10**9]):
            assert error_of(keeper.post("/hook-policies/reorder", {"ids": wrong}))[::2] == (400, "ids")
        assert error_of(keeper.post("/hook-policies/reorder", {"ids": ["x"]}))[2] == "ids.0"

    def test_the_examples_are_added_once(self, keeper) -> None:
        added = keeper.post("/hook-policies/examples")
        assert added.status_code == 201
        assert {one["mode"] for one in added.json()} == {"off"}
        assert len(added.json()) >= 7
        assert keeper.post("/hook-policies/examples").json() == []
        webhook = keeper.post("/webhooks", webhook_for()).json()["id"]
        assert len(keeper.post("/hook-policies/examples", {"webhook_id": webhook}).json()) == 1
        assert error_of(keeper.post("/hook-policies/examples", {"webhook_id": 10**9}))[2] == "webhook_id"

    def test_what_a_scope_names_in_vain_is_said(self, keeper) -> None:
        row = ModelRow.objects.create(model_id="tiny", source="/m.gguf")
        shown = made(keeper, scope={"models": ["tiny"], "user_ids": [keeper.row.user_id]})
        etag = keeper.get(f"/hook-policies/{shown['id']}")["ETag"]
        row.delete()

        assert keeper.get("/hook-policies").json()["data"][0]["missing"] == ["scope.models: tiny"]
        assert keeper.get(f"/hook-policies/{shown['id']}")["ETag"] == etag

    def test_a_row_that_cannot_be_read_is_shown_and_can_be_switched_off_and_removed(self, keeper) -> None:
        shown = made(keeper, mode="enforce")
        path = f"/hook-policies/{shown['id']}"
        HookPolicy.objects.update(actions=[{"type": "explode"}])

        assert "actions[0].type" in keeper.get(path).json()["fault"]
        assert error_of(keeper.patch(path, {"order": 5}))[2] == "actions[0].type"
        assert error_of(keeper.patch(path, {"mode": "observe"}))[2] == "actions[0].type"
        assert keeper.patch(path, {"mode": "off"}).json()["mode"] == "off"
        assert keeper.delete(path).status_code == 204

    def test_the_history_says_who_did_what_also_of_what_is_gone(self, keeper) -> None:
        shown = made(keeper, "a")
        keeper.patch(f"/hook-policies/{shown['id']}", {"mode": "enforce"})
        keeper.delete(f"/hook-policies/{shown['id']}")
        made(keeper, "b")

        of_one = keeper.get(f"/hook-policies/{shown['id']}/changes").json()["data"]
        assert [one["action"] for one in of_one] == ["deleted", "changed", "created"]
        assert of_one[1]["changes"] == {"mode": ["off", "enforce"]}
        assert {(one["actor_name"], one["door"], one["actor_key_id"]) for one in of_one} == {
            ("keeper", "api", keeper.row.pk)
        }
        everything = keeper.get("/hook-policies/changes?limit=2").json()
        assert [one["subject_label"] for one in everything["data"]] == ["b", "a"]
        assert everything["has_more"]


class TestWebhooks:
    def test_all_of_it_is_kept_and_the_secret_is_never_shown(self, keeper) -> None:
        body = webhook_for(
            description="d",
            parts=["text", "signals"],
            actions=["deny", "mask_text"],
            deadline_s=2.0,
            max_body_bytes=1000,
            max_answer_bytes=1000,
            max_in_flight=2,
            max_retries=0,
            allows_private=True,
        )

        response = keeper.post("/webhooks", body)
        shown = response.json()

        assert response.status_code == 201
        for name in body.keys() - {"secret"}:
            assert shown[name] == body[name]
        path = f"/webhooks/{shown['id']}"
        changed = keeper.patch(path, {"secret": "another-secret-altogether", "max_retries": 1})
        seen = [keeper.get(path), changed, keeper.get("/webhooks"), response, keeper.get("/webhooks/changes")]
        row = Webhook.objects.get()
        for answer in seen:
            text = answer.content.decode()
            for hidden in (SECRET, "another-secret", row.secret_encrypted):
                assert hidden not in text
        assert "secret" not in shown
        assert "hook.example" not in seen[-1].content.decode()

    @pytest.mark.parametrize(
        ("param", "change"),
        [
            ("url", {"url": "http://hook.example/"}),
            ("url", {"url": "javascript:alert(1)"}),
            ("secret", {"secret": "short"}),
            ("secret", {"secret": None}),
            ("parts.0", {"parts": ["everything"]}),
            ("actions.0", {"actions": ["call_webhook"]}),
            ("actions.0", {"actions": ["explode"]}),
            ("max_in_flight", {"max_in_flight": 0}),
            ("deadline_s", {"deadline_s": 100}),
            ("secret_encrypted", {"secret_encrypted": "x"}),
        ],
    )
    def test_what_cannot_be_is_refused_by_its_field(self, keeper, param, change) -> None:
        status, _, told = error_of(keeper.post("/webhooks", webhook_for(**change)))
        assert (status, told) == (400, param)

    def test_a_secret_is_needed_at_first_and_a_refusal_does_not_repeat_it(self, keeper) -> None:
        body = webhook_for()
        del body["secret"]
        assert error_of(keeper.post("/webhooks", body))[2] == "secret"
        bad = keeper.post("/webhooks", webhook_for(secret="hush-hush\nhush-hush"))
        assert error_of(bad)[2] == "secret"
        assert "hush" not in bad.content.decode()

    def test_one_that_a_policy_calls_stays(self, keeper) -> None:
        webhook = keeper.post("/webhooks", webhook_for()).json()["id"]
        policy = made(keeper, actions=[{"type": "call_webhook", "webhook_id": webhook}])["id"]

        assert error_of(keeper.delete(f"/webhooks/{webhook}"))[:2] == (409, "conflict")
        keeper.delete(f"/hook-policies/{policy}")
        assert keeper.delete(f"/webhooks/{webhook}").status_code == 204
        assert error_of(keeper.get(f"/webhooks/{webhook}"))[0] == 404
        of_one = keeper.get(f"/webhooks/{webhook}/changes").json()["data"]
        assert [one["action"] for one in of_one] == ["deleted", "created"]

    def test_a_change_is_made_to_the_state_that_it_names(self, keeper) -> None:
        path = f"/webhooks/{keeper.post('/webhooks', webhook_for()).json()['id']}"
        etag = keeper.get(path)["ETag"]
        assert keeper.patch(path, {"secret": "another-secret-altogether"}).status_code == 200
        assert error_of(keeper.patch(path, {"max_retries": 0}, **{"if-match": etag}))[0] == 412

    def test_filtered_by_name(self, keeper) -> None:
        for name in ("a", "b"):
            keeper.post("/webhooks", webhook_for(name))
        assert [one["name"] for one in keeper.get("/webhooks?name=a").json()["data"]] == ["a"]


class TestSessions:
    """What the admin lets somebody do, the API lets him do, too."""

    def test_staff_with_the_permissions_of_the_admin_manages_policies(self, client: Client) -> None:
        user = User.objects.create_user("operator", password="x", is_staff=True)
        client.force_login(user)
        assert client.get("/api/hook-policies").status_code == 403
        wanted = Permission.objects.filter(
            content_type__app_label="hooks", codename__regex="^(add|change|delete)_"
        )
        user.user_permissions.set(wanted)
        assert client.get("/api/hook-policies").status_code == 200

    def test_permissions_without_staff_open_nothing(self, client: Client) -> None:
        user = User.objects.create_user("nobody", password="x")
        user.user_permissions.set(Permission.objects.filter(content_type__app_label="hooks"))
        client.force_login(user)
        assert client.get("/api/hook-policies").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_many_changes_at_once_end_in_one_of_them(keeper, in_threads) -> None:
    path = f"/hook-policies/{made(keeper)['id']}"
    etag = keeper.get(path)["ETag"]

    def change() -> int:
        client = Program(keeper.row, keeper.key)
        return client.patch(path, {"mode": "enforce"}, **{"if-match": etag}).status_code

    assert sorted(in_threads(partial(change), 4)) == [200, 412, 412, 412]
