"""Policies tried in the admin: saved ones, what stands in the form, and nothing is written by it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hooks.contracts.actions import Deny
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.models import HookPolicy
from tests.integration.hooks.test_admin import ADD
from tests.integration.hooks.test_admin import form as policy_form

pytestmark = pytest.mark.django_db

TRY = "/admin/hooks/hookpolicy/try/"
DENY = {
    "condition": 'has_word(text.input, "salary")',
    "actions": '[{"type": "deny", "message": "Not here."}]',
}


def sent(text: str = "what salary", **changes: Any) -> dict[str, Any]:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
    return {"trial-endpoint": "chat.completions", "trial-body": json.dumps(body), **changes}


def test_a_saved_policy_that_is_off_is_tried_as_if_it_were_enforced(admin_client) -> None:
    admin_client.post(ADD, policy_form(**DENY))
    row = HookPolicy.objects.get()
    asked = admin_client.get(f"{TRY}?policy={row.pk}")
    assert asked.context["form"]["enforce"].value() == [str(row.pk)]
    shown = admin_client.post(TRY, sent(**{"trial-enforce": [row.pk]}))
    assert shown.context["result"].denial.message == "Not here."
    assert admin_client.post(TRY, sent()).context["result"].denial is None
    passed = admin_client.post(TRY, sent("hello", **{"trial-enforce": [row.pk]}))
    assert [firing.has_matched for firing, _ in passed.context["firings"]] == [False]


def test_the_draft_takes_the_saved_ones_place_and_is_not_saved(admin_client) -> None:
    admin_client.post(ADD, policy_form(**DENY))
    row = HookPolicy.objects.get()
    draft = policy_form(
        condition="", actions='[{"type": "add_system_prompt", "text": "<b>Be kind"}]', draft_of=row.pk
    )
    came = admin_client.post(TRY, draft)
    assert came.context["result"] is None and ("condition", "") in came.context["carried"]
    shown = admin_client.post(TRY, {**draft, **sent()})
    assert ("+", "    <b>Be kind") in shown.context["lines"]
    assert "&lt;b&gt;Be kind" in shown.content.decode() and "<b>Be kind" not in shown.content.decode()
    assert shown.context["result"].denial is None
    assert HookPolicy.objects.get().actions[0]["type"] == "deny"


@pytest.mark.parametrize(
    "changes",
    [
        {"trial-body": "{"},
        {"trial-body": "[1]"},
        {"trial-body": '{"messages": 1}'},
        {"trial-body": "[" * 100_000},
        {"trial-endpoint": "x"},
        {"trial-user_id": "999999"},
        {"trial-key_id": "9" * 30},
        {"trial-enforce": ["77"]},
    ],
)
def test_what_cannot_be_tried_is_said(changes, admin_client) -> None:
    shown = admin_client.post(TRY, sent(**changes))
    assert shown.status_code == 200
    assert shown.context["form"].errors and shown.context["result"] is None


def test_a_draft_that_could_not_be_saved_is_not_tried(admin_client) -> None:
    shown = admin_client.post(TRY, {**policy_form(condition="has_word("), **sent(), "draft_of": ""})
    assert "condition" in shown.context["draft_errors"] and shown.context["result"] is None


def test_who_may_not_see_policies_may_not_try_them() -> None:
    user = User.objects.create_user("member", is_staff=True)
    client = Client()
    client.force_login(user)
    assert client.post(TRY, sent()).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_hookpolicy"))
    assert client.post(TRY, sent()).status_code == 200
    assert Client().post(TRY, sent()).status_code == 302


def test_the_number_of_queries_does_not_grow_with_the_policies(admin_client) -> None:
    admin_client.post(ADD, policy_form(name="first", mode="enforce"))
    with CaptureQueriesContext(connection) as few:
        admin_client.post(TRY, sent())
    for place in range(5):
        admin_client.post(ADD, policy_form(name=f"p{place}", mode="enforce"))
    with CaptureQueriesContext(connection) as many:
        admin_client.post(TRY, sent())
    assert len(many) == len(few)


def tried(client: Client, policy: dict[str, Any], **fields: Any) -> Any:
    answer = client.post(
        TRY,
        {
            **policy_form(**policy, draft_of=""),
            **sent("hello"),
            **{f"trial-{k}": v for k, v in fields.items()},
        },
    )
    assert not answer.context["form"].errors, answer.context["form"].errors
    return answer


MASK = {
    "point": "before_output",
    "condition": "",
    "actions": json.dumps(
        [{"type": "mask_text", "targets": ["content", "reasoning", "arguments"], "words": ["secret"]}]
    ),
}


class TestWhatNobodyGenerates:
    def out(self, shown: Any) -> tuple[str, str, str]:
        steps = shown.context["result"].steps
        joined = ["", "", ""]
        for step in steps:
            joined[0] += step.released.content
            joined[1] += step.released.reasoning
            joined[2] += "".join(step.released.arguments.values())
        return joined[0], joined[1], joined[2]

    def test_an_answer_whole_and_as_a_stream_with_the_policys_window(self, admin_client) -> None:
        said = {
            "content": "The secret stands in the middle of a text that is longer than the window. " * 3,
            "reasoning": "a secret thought",
            "calls": '[{"name": "send", "arguments": {"text": "s\\u0065cret"}}]',
        }
        whole = tried(admin_client, MASK, answer_kind="whole", **said)
        assert len(whole.context["result"].steps) == 1
        for chunk_chars in (1, 3, 1000):
            stream = tried(
                admin_client,
                {**MASK, "held_chars": "16"},
                answer_kind="stream",
                chunk_chars=chunk_chars,
                **said,
            )
            assert len(stream.context["result"].steps) > (1 if chunk_chars < 1000 else 0)
            assert self.out(stream) == self.out(whole)
        content, reasoning, arguments = self.out(whole)
        assert "secret" not in content + reasoning + arguments and content.count("***") == 3
        assert json.loads(arguments) == {"text": "***"}

    def test_a_denial_in_the_middle_shows_what_is_out_already(self, admin_client) -> None:
        deny = {
            "point": "before_output",
            "condition": 'has_word(output.content, "secret")',
            "actions": '[{"type": "deny", "message": "no"}]',
            "held_chars": "16",
        }
        shown = tried(admin_client, deny, answer_kind="stream", content="x" * 200 + " the secret")
        steps = shown.context["result"].steps
        assert shown.context["result"].denial.message == "no"
        assert steps[-1].released is None and "refused" in shown.content.decode()
        filtered = {**deny, "actions": '[{"type": "stop_generation"}]'}
        whole = tried(admin_client, filtered, answer_kind="whole", content="the secret")
        assert self.out(whole) == ("", "", "")
        assert "content_filter" in whole.content.decode()

    def test_signals_and_the_end(self, admin_client) -> None:
        unsure = {
            "point": "after_prefill",
            "condition": "signals.entropy > 3.0",
            "actions": '[{"type": "inject_text", "text": "I am not sure."}]',
        }
        for entropy, num in ((3.5, 1), (2.5, 0)):
            shown = tried(admin_client, unsure, entropy=entropy, margin=0.1)
            assert len(shown.context["result"].injections) == num
        assert shown.context["firings"]
        assert not tried(admin_client, unsure).context["firings"]
        loops = {
            "point": "mid_generation",
            "condition": "signals.num_repetitions > 2 && signals.mean_entropy < 1.0",
            "actions": '[{"type": "stop_generation", "reason": "stop"}]',
        }
        shown = tried(admin_client, loops, window='{"num_repetitions": 3, "mean_entropy": 0.5}')
        assert shown.context["result"].stop == "stop"
        end = {
            "point": "terminal",
            "condition": 'outcome.kind == "error" && outcome.status == 502',
            "actions": '[{"type": "tag", "name": "bad"}]',
        }
        shown = tried(admin_client, end, outcome="error", status=502)
        assert shown.context["result"].tags == {"bad": ""}
        assert tried(admin_client, end).context["result"].tags == {}

    @pytest.mark.parametrize(
        ("fields", "wrong"),
        [
            ({"entropy": "1"}, "margin"),
            ({"entropy": "nan", "margin": "1"}, "entropy"),
            ({"window": '{"num_tokens": 1.5}'}, "window"),
            ({"window": '{"rules": [1]}'}, "window"),
            ({"window": '{"mean_entropy": 1e999}'}, "window"),
            ({"window": "[]"}, "window"),
            ({"calls": '{"name": "x"}'}, "calls"),
            ({"calls": '[{"arguments": {}}]'}, "calls"),
            ({"content": "x" * 100_000, "chunk_chars": "1", "answer_kind": "stream"}, "chunk_chars"),
            ({"chunk_chars": "0"}, "chunk_chars"),
            ({"status": "9999"}, "status"),
        ],
    )
    def test_what_makes_no_sense_is_refused_at_its_field(self, admin_client, fields, wrong) -> None:
        shown = admin_client.post(
            TRY, {**sent(), **{f"trial-{name}": value for name, value in fields.items()}}
        )
        assert list(shown.context["form"].errors) == [wrong]
        assert shown.context["result"] is None


class TestWebhooks:
    def test_they_are_asked_only_where_that_is_wanted_by_who_may(
        self, admin_client, make_webhook, client
    ) -> None:
        calls: list[bytes] = []

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                calls.append(self.rfile.read(int(self.headers["Content-Length"])))
                body = b'{"actions": [{"type": "deny", "message": "says the webhook"}]}'
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            webhook = make_webhook(
                url=f"http://127.0.0.1:{server.server_port}/x",
                allows_private=True,
                rights=WebhookRights(frozenset({BodyPart.TEXT}), frozenset({Deny})),
            )
            policy = {"actions": json.dumps([{"type": "call_webhook", "webhook_id": webhook.pk}])}
            asked = admin_client.get(TRY).content.decode()
            assert (
                "Really ask" in asked and "to review text" in asked and str(server.server_port) not in asked
            )
            shown = tried(admin_client, policy)
            assert (calls, shown.context["result"].denial) == ([], None)
            assert "would have been called" in shown.content.decode()
            shown = tried(admin_client, policy, asks_webhooks="on")
            assert shown.context["result"].denial.message == "says the webhook"
            assert [json.loads(one)["text"] for one in calls] == ["hello"]
            reader = User.objects.create_user("reader", password="x", is_staff=True)
            reader.user_permissions.add(Permission.objects.get(codename="view_hookpolicy"))
            client.force_login(reader)
            assert "Really ask" not in client.get(TRY).content.decode()
            tried(client, policy, asks_webhooks="on")
            assert len(calls) == 1
        finally:
            server.shutdown()
            server.server_close()
