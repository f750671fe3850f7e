"""Policies and webhooks in the admin: the same services, what is wrong at its field, and no secret shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import services as accounts
from accounts.models import AdministrativeChange
from hooks.contracts.policies import PolicyMode, PolicyScope
from hooks.models import HookPolicy, Webhook
from hooks.selectors import policy_snapshot_read
from tests.integration.hooks.conftest import SECRET, write_past

pytestmark = pytest.mark.django_db

LIST, ADD = "/admin/hooks/hookpolicy/", "/admin/hooks/hookpolicy/add/"
WEBHOOKS, ADD_WEBHOOK = "/admin/hooks/webhook/", "/admin/hooks/webhook/add/"


def form(**changes: Any) -> dict[str, Any]:
    return {
        "name": "p",
        "description": "",
        "mode": "off",
        "order": "100",
        "is_required": "on",
        "point": "before_chat_completion",
        "condition": "",
        "actions": '[{"type": "tag", "name": "seen"}]',
        "teams": "",
        "users": "",
        "keys": "",
        "models": "",
        "deadline_s": "1.0",
        "on_failure": "closed",
        "held_chars": "64",
        "window": "{}",
        **changes,
    }


def webhook_form(**changes: Any) -> dict[str, Any]:
    return {
        "name": "w",
        "description": "",
        "url": "https://hook.example/path",
        "secret": SECRET,
        "parts": ["text"],
        "actions": ["deny"],
        "deadline_s": "1.0",
        "max_retries": "1",
        "max_in_flight": "16",
        "max_body_bytes": "1000",
        "max_answer_bytes": "1000",
        **changes,
    }


def errors(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    found: dict[str, list[str]] = response.context["adminform"].form.errors
    return found


class TestPolicies:
    def test_written_with_names_and_shown_again(self, admin_client) -> None:
        team, user = accounts.team_create(name="friends"), accounts.user_ensure(username="ann")
        key, _ = accounts.api_key_create(user=user, name="laptop")
        body = form(
            teams="friends",
            users=f"ann\r\n#{user.pk}",
            keys=f"#{key.pk}",
            condition='has_word(text.folded, "x")\r\n|| false',
            mode="observe",
            actions='[{"type": "deny", "message": "no"}]',
        )

        assert admin_client.post(ADD, body).status_code == 302

        row = HookPolicy.objects.get()
        assert (row.team_ids, row.user_ids, row.key_ids) == ([team.pk], [user.pk], [key.pk])
        assert row.condition == 'has_word(text.folded, "x")\n|| false'
        assert row.actions[0]["status"] == 403
        page = admin_client.get(f"{LIST}{row.pk}/change/").content.decode()
        for shown in (
            f"#{team.pk} friends",
            f"#{key.pk} laptop of ann",
            "text.folded_user",
            "clamp_parameter",
        ):
            assert shown in page
        change = AdministrativeChange.objects.filter(subject_kind="hook_policy").get()
        assert (change.door, change.actor_name) == ("admin", "admin")

    def test_what_the_page_shows_can_be_sent_back_as_it_is(self, admin_client) -> None:
        team = accounts.team_create(name="friends")
        admin_client.post(ADD, form(teams="friends"))
        row = HookPolicy.objects.get()
        shown = admin_client.get(f"{LIST}{row.pk}/change/").context["adminform"].form
        team.delete()  # it is shown as gone then, and stays

        body = {name: shown.get_initial_for_field(field, name) for name, field in shown.fields.items()}
        body |= {"actions": json.dumps(row.actions), "window": "{}", "is_required": "on", "order": "7"}
        assert admin_client.post(f"{LIST}{row.pk}/change/", body).status_code == 302

        row.refresh_from_db()
        assert (row.order, row.team_ids, row.revision) == (7, [team.pk or row.team_ids[0]], 2)

    @pytest.mark.parametrize(
        ("field", "changes"),
        [
            ("name", {"name": ""}),
            ("name", {"name": "a\u202eb"}),
            ("point", {"point": "somewhere"}),
            ("mode", {"mode": "on"}),
            ("condition", {"condition": "text.contains("}),
            ("condition", {"condition": "signals.entropy > 1.0"}),
            ("actions", {"actions": ""}),
            ("actions", {"actions": "[}"}),
            ("actions", {"actions": "[]"}),
            ("actions", {"actions": "5"}),
            ("actions", {"actions": "[" * 100_000}),
            ("actions", {"actions": "9" * 10_000}),
            ("actions", {"actions": '[{"type": "deny", "message": "x", "status": 200}]'}),
            ("actions", {"actions": '[{"type": "stop_generation"}]'}),
            ("window", {"window": '{"window_tokens": 0}'}),
            ("teams", {"teams": "nobody"}),
            ("teams", {"teams": "#99999"}),
            ("users", {"users": "nobody"}),
            ("keys", {"keys": "laptop"}),
            ("models", {"models": "nothing"}),
            ("deadline_s", {"deadline_s": "NaN"}),
            ("deadline_s", {"deadline_s": "100"}),
            ("order", {"order": "-1"}),
            ("order", {"order": "9999999"}),
            ("held_chars", {"held_chars": "100000"}),
        ],
    )
    def test_what_cannot_be_is_said_at_its_field(self, admin_client, field, changes) -> None:
        assert set(errors(admin_client.post(ADD, form(**changes)))) == {field}
        assert not HookPolicy.objects.exists()

    def test_what_is_wrong_inside_of_actions_is_named(self, admin_client) -> None:
        body = form(actions='[{"type": "deny", "message": "x", "status": 200}]')
        (said,) = errors(admin_client.post(ADD, body))["actions"]
        assert "actions[0].status" in said

    def test_somebody_elses_change_is_not_undone(self, admin_client, make) -> None:
        row = make("p")
        HookPolicy.objects.update(revision=5)
        page = f"{LIST}{row.pk}/change/"
        assert "__all__" in errors(admin_client.post(page, form(seen_revision="4", order="1")))
        assert admin_client.post(page, form(seen_revision="5", order="1")).status_code == 302

    def test_switched_from_the_list(self, admin_client, make) -> None:
        rows = [make(name) for name in "ab"]
        for action, mode in (
            ("enforce_selected", "enforce"),
            ("observe_selected", "observe"),
            ("switch_off_selected", "off"),
        ):
            body = {"action": action, "_selected_action": [row.pk for row in rows]}
            assert admin_client.post(LIST, body).status_code == 302
            assert {row.mode for row in HookPolicy.objects.all()} == {mode}

    def test_put_in_order_from_the_list(self, admin_client, make) -> None:
        a, b = make("a", order=1), make("b", order=2)
        body = {
            "form-TOTAL_FORMS": "2",
            "form-INITIAL_FORMS": "2",
            "form-0-id": a.pk,
            "form-0-order": "9",
            "form-1-id": b.pk,
            "form-1-order": "2",
            "_save": "Save",
        }
        assert admin_client.post(LIST, body).status_code == 302
        assert list(HookPolicy.objects.order_by("order").values_list("name", "order")) == [("b", 2), ("a", 9)]
        assert HookPolicy.objects.get(pk=b.pk).revision == 1

    def test_a_row_that_cannot_be_read_is_shown_and_not_switched_on(self, admin_client, make) -> None:
        row = make("odd", mode=PolicyMode.OBSERVE)
        write_past("hooks_hookpolicy", """actions = '[{"type": "explode"}]'""")

        assert "actions[0].type" in admin_client.get(LIST).content.decode()
        assert admin_client.get(f"{LIST}{row.pk}/change/").status_code == 200
        admin_client.post(LIST, {"action": "enforce_selected", "_selected_action": [row.pk]})
        assert HookPolicy.objects.get().mode == "observe"
        admin_client.post(LIST, {"action": "switch_off_selected", "_selected_action": [row.pk]})
        assert HookPolicy.objects.get().mode == "off"

    def test_removed_one_by_one_and_many_at_once(self, admin_client, make) -> None:
        rows = [make(name) for name in "abc"]
        assert admin_client.post(f"{LIST}{rows[0].pk}/delete/", {"post": "yes"}).status_code == 302
        body = {"action": "delete_selected", "_selected_action": [row.pk for row in rows[1:]], "post": "yes"}
        assert admin_client.post(LIST, body).status_code == 302
        assert not HookPolicy.objects.exists()
        assert AdministrativeChange.objects.filter(subject_kind="hook_policy", action="deleted").count() == 3

    def test_the_history_is_that_of_every_door(self, admin_client, make) -> None:
        row = make("<b>p</b>", description="<script>")
        admin_client.post(LIST, {"action": "enforce_selected", "_selected_action": [row.pk]})

        page = admin_client.get(f"{LIST}{row.pk}/history/").content.decode()

        assert "(command)" in page and "(admin)" in page
        assert "&quot;off&quot; → &quot;enforce&quot;" in page
        assert "<script>&quot;" not in page and "<b>p</b>" not in page
        assert admin_client.get(f"{LIST}999999/history/").status_code == 404

    def test_a_list_costs_as_many_queries_however_long_it_is(self, admin_client, make) -> None:
        user = accounts.user_ensure(username="ann")
        scope = PolicyScope(user_ids=frozenset({user.pk}))

        def num_queries() -> int:
            with CaptureQueriesContext(connection) as caught:
                assert admin_client.get(LIST).status_code == 200
            return len(caught)

        make("first", scope=scope)
        few = num_queries()
        for number in range(10):
            make(f"p{number}", scope=scope)
        assert num_queries() == few

    def test_whom_it_names_in_vain_is_said(self, admin_client, make) -> None:
        team = accounts.team_create(name="t")
        row = make(scope=PolicyScope(team_ids=frozenset({team.pk})))
        gone = f"scope.team_ids: {team.pk}"
        team.delete()
        assert gone in admin_client.get(LIST).content.decode()
        assert gone in admin_client.get(f"{LIST}{row.pk}/change/").content.decode()


class TestWebhooks:
    def test_written_and_the_secret_never_shown(self, admin_client) -> None:
        assert admin_client.post(ADD_WEBHOOK, webhook_form()).status_code == 302
        row = Webhook.objects.get()
        page = f"{WEBHOOKS}{row.pk}/change/"
        assert (row.parts, row.actions) == (["text"], ["deny"])

        assert admin_client.post(page, webhook_form(secret="", max_retries="0")).status_code == 302
        assert policy_snapshot_read().webhooks[row.pk].secret == SECRET
        assert policy_snapshot_read().webhooks[row.pk].max_retries == 0
        assert admin_client.post(page, webhook_form(secret="another-secret-altogether")).status_code == 302
        assert policy_snapshot_read().webhooks[row.pk].secret == "another-secret-altogether"
        for path in (WEBHOOKS, page, f"{WEBHOOKS}{row.pk}/history/"):
            text = admin_client.get(path).content.decode()
            assert "altogether" not in text and SECRET not in text
            assert Webhook.objects.get().secret_encrypted not in text
        assert "/path" not in admin_client.get(WEBHOOKS).content.decode()

    @pytest.mark.parametrize(
        ("field", "changes"),
        [
            ("url", {"url": "http://hook.example/"}),
            ("secret", {"secret": ""}),
            ("secret", {"secret": "short"}),
            ("parts", {"parts": ["everything"]}),
            ("actions", {"actions": ["call_webhook"]}),
            ("deadline_s", {"deadline_s": "NaN"}),
            ("max_in_flight", {"max_in_flight": "0"}),
        ],
    )
    def test_what_cannot_be_is_said_at_its_field(self, admin_client, field, changes) -> None:
        assert set(errors(admin_client.post(ADD_WEBHOOK, webhook_form(**changes)))) == {field}

    def test_a_refused_page_does_not_repeat_the_secret(self, admin_client) -> None:
        body = webhook_form(url="ftp://x/", secret="hush-hush-hush-hush")
        assert "hush-hush" not in admin_client.post(ADD_WEBHOOK, body).content.decode()

    def test_one_that_a_policy_calls_stays(self, admin_client, make, make_webhook) -> None:
        from hooks.contracts.actions import CallWebhook

        row = make_webhook()
        make(actions=(CallWebhook(row.pk),))
        admin_client.post(f"{WEBHOOKS}{row.pk}/delete/", {"post": "yes"})
        admin_client.post(
            WEBHOOKS, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
        )
        assert Webhook.objects.exists()


class TestRoles:
    @pytest.fixture
    def looker(self, client: Client) -> Client:
        user = User.objects.create_user("looker", password="x", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=["view_hookpolicy", "view_webhook"]))
        client.force_login(user)
        return client

    def test_who_may_look_sees_whom_it_is_for(self, looker, make, make_webhook) -> None:
        team = accounts.team_create(name="friends")
        row, webhook = make(scope=PolicyScope(team_ids=frozenset({team.pk}))), make_webhook()

        page = looker.get(f"{LIST}{row.pk}/change/").content.decode()
        assert f"#{team.pk} friends" in page
        assert "seen_revision" not in page and "Seen revision" not in page
        assert "Secret" not in looker.get(f"{WEBHOOKS}{webhook.pk}/change/").content.decode()

    def test_who_may_look_may_not_touch(self, looker, make, make_webhook) -> None:
        row, webhook = make(), make_webhook()
        for path in (
            LIST,
            f"{LIST}{row.pk}/change/",
            f"{LIST}{row.pk}/history/",
            WEBHOOKS,
            f"{WEBHOOKS}{webhook.pk}/change/",
        ):
            assert looker.get(path).status_code == 200
        assert looker.post(ADD, form()).status_code == 403
        assert looker.post(f"{LIST}{row.pk}/change/", form()).status_code == 403
        assert looker.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 403
        looker.post(LIST, {"action": "enforce_selected", "_selected_action": [row.pk]})
        assert HookPolicy.objects.get().mode == "off"

    def test_who_may_only_add_adds_with_a_secret(self, client) -> None:
        user = User.objects.create_user("adder", password="x", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=["add_hookpolicy", "add_webhook"]))
        client.force_login(user)

        assert client.post(ADD_WEBHOOK, webhook_form()).status_code == 302
        assert client.post(ADD, form()).status_code == 302
        assert policy_snapshot_read().webhooks[Webhook.objects.get().pk].secret == SECRET
        page = f"{LIST}{HookPolicy.objects.get().pk}/change/"
        assert client.get(page).status_code == 403

    def test_staff_without_permissions_sees_nothing(self, client, make) -> None:
        row = make()
        client.force_login(User.objects.create_user("staff", password="x", is_staff=True))
        for path in (LIST, f"{LIST}{row.pk}/change/", f"{LIST}{row.pk}/history/", WEBHOOKS, ADD):
            assert client.get(path).status_code == 403
