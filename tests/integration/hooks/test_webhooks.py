"""Changing webhooks: the secret goes in and never comes out, and what is called can be called."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from accounts.models import AdministrativeChange
from hooks.contracts.actions import CallWebhook, Deny, MaskText
from hooks.contracts.refusals import AlreadyTaken, HookRefusal, NotThere
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.models import Webhook
from hooks.selectors import policy_snapshot_read
from hooks.services.policies import policy_delete
from hooks.services.webhook_columns import settings_of
from hooks.services.webhooks import webhook_create, webhook_delete, webhook_get, webhook_update
from tests.integration.hooks.conftest import SECRET, webhook_for, write_past

pytestmark = pytest.mark.django_db


def refused(call: Any) -> str | None:
    with pytest.raises(HookRefusal) as raised:
        call()
    assert SECRET not in raised.value.message
    return raised.value.field


def test_every_field_comes_back_and_the_secret_where_it_is_needed() -> None:
    settings = webhook_for(
        "all",
        url="http://10.0.0.7:8080/hook?a=b",
        rights=WebhookRights(frozenset({BodyPart.TEXT, BodyPart.SIGNALS}), frozenset({Deny, MaskText})),
        deadline_s=2.5,
        max_body_bytes=10,
        max_answer_bytes=20,
        max_in_flight=3,
        max_retries=0,
        allows_private=True,
    )

    row = webhook_create(settings=settings, description="d")

    assert SECRET not in row.secret_encrypted
    assert settings_of(webhook_get(webhook_id=row.pk)) == replace(settings, webhook_id=row.pk, secret="")
    assert policy_snapshot_read().webhooks == {row.pk: replace(settings, webhook_id=row.pk)}


def test_a_change_keeps_the_secret_unless_there_is_a_new_one(make_webhook) -> None:
    row = make_webhook()
    settings = settings_of(row)

    assert webhook_update(settings=settings, description="").revision == 1
    webhook_update(settings=replace(settings, max_retries=0), description="")
    assert policy_snapshot_read().webhooks[row.pk].secret == SECRET
    webhook_update(settings=settings, description="", secret="another-secret-altogether")
    assert policy_snapshot_read().webhooks[row.pk].secret == "another-secret-altogether"
    assert webhook_get(webhook_id=row.pk).revision == 3


def test_the_history_has_neither_secret_nor_address(make_webhook) -> None:
    row = make_webhook(url="https://hook.example/hidden-path")
    webhook_update(settings=settings_of(row), description="", secret="another-secret-altogether")

    told = str(list(AdministrativeChange.objects.filter(subject_kind="webhook").values_list("changes")))
    for hidden in (SECRET, "another-secret", "hidden-path", row.secret_encrypted):
        assert hidden not in told
    assert "secret_encrypted" in told


@pytest.mark.parametrize(
    ("field", "members"),
    [
        ("name", {"name": ""}),
        ("url", {"url": ""}),
        ("url", {"url": "hook.example"}),
        ("url", {"url": "ftp://hook.example/"}),
        ("url", {"url": "file:///etc/passwd"}),
        ("url", {"url": "https:///path"}),
        ("url", {"url": "https://[::1"}),
        ("url", {"url": "https://host:99999/"}),
        ("url", {"url": "https://user:password@host/"}),
        ("url", {"url": "https://host/a b"}),
        ("url", {"url": "https://host\\@evil/"}),
        ("url", {"url": "https://host/\r\nX: y"}),
        ("url", {"url": "https://host/#part"}),
        ("url", {"url": "https://host/" + "x" * 2000}),
        ("url", {"url": "http://host/"}),
        ("secret", {"secret": ""}),
        ("secret", {"secret": "short"}),
        ("secret", {"secret": "x" * 1001}),
        ("secret", {"secret": "with a line break\nin it"}),
        ("actions", {"rights": WebhookRights(actions=frozenset({CallWebhook}))}),
        ("deadline_s", {"deadline_s": 0.0}),
        ("deadline_s", {"deadline_s": 31.0}),
        ("deadline_s", {"deadline_s": float("nan")}),
        ("max_body_bytes", {"max_body_bytes": 0}),
        ("max_answer_bytes", {"max_answer_bytes": 10**9}),
        ("max_in_flight", {"max_in_flight": 0}),
        ("max_retries", {"max_retries": 6}),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(field, members) -> None:
    assert refused(partial(webhook_create, settings=webhook_for(**members))) == field
    assert not Webhook.objects.exists()


def test_one_that_a_policy_calls_is_not_removed(make, make_webhook) -> None:
    row = make_webhook()
    policy = make(actions=(CallWebhook(row.pk),))

    with pytest.raises(AlreadyTaken):
        webhook_delete(webhook_id=row.pk)
    policy_delete(policy_id=policy.pk)
    webhook_delete(webhook_id=row.pk)
    with pytest.raises(NotThere):
        webhook_get(webhook_id=row.pk)


@pytest.mark.parametrize("change", ["secret_encrypted = 'nothing'", "parts = '{everything}'"])
def test_one_that_cannot_be_read_is_left_out_and_said(make_webhook, caplog, change) -> None:
    row, good = make_webhook("odd"), make_webhook("good")
    write_past("hooks_webhook", change, row.pk)

    assert list(policy_snapshot_read().webhooks) == [good.pk]
    assert "odd" in caplog.text
