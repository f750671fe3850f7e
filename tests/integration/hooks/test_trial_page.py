"""Policies tried in the admin: saved ones, what stands in the form, and nothing is written by it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

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
