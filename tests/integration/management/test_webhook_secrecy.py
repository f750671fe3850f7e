"""A webhook's secret after it was given: in no table, no log line, no answer, in no form of its text."""

from __future__ import annotations

import base64
import logging

import pytest
from django.db import connection

from accounts.scopes import Scope
from hooks.models import Webhook
from hooks.secrets import SecretUnreadable
from hooks.selectors import policy_snapshot_read
from hooks.services.secret_box import secret_box
from tests.integration.management.conftest import Program

pytestmark = pytest.mark.django_db

FIRST, SECOND = "first-secret-of-the-webhook", "second-secret-of-the-webhook"


@pytest.fixture
def keeper(program) -> Program:
    return program("keeper", frozenset({Scope.POLICIES}))


def forms(secret: str) -> set[str]:
    """Texts in which it would be readable."""
    return {secret, secret.encode().hex(), base64.b64encode(secret.encode()).decode().rstrip("=")[:-1]}


def tables_with(text: str) -> list[str]:
    """All tables in which any row holds a text in any column."""
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        assert "hooks_webhook" in names and len(names) > 20
        found = []
        for name in names:
            cursor.execute(f'SELECT count(*) FROM "{name}" AS one WHERE one::text LIKE %s', [f"%{text}%"])  # noqa: S608
            if cursor.fetchone()[0]:
                found.append(name)
        return found


def test_a_secret_is_kept_and_never_comes_out(keeper, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"name": "review", "url": "https://hook.example/", "secret": FIRST}
    answers = [
        keeper.post("/webhooks", {**body, "url": "http://plain.example/"}),
        keeper.post("/webhooks", body),
    ]
    assert [answer.status_code for answer in answers] == [400, 201]
    path = f"/webhooks/{answers[1].json()['id']}"
    answers += [
        keeper.patch(path, {"secret": SECOND}),
        keeper.patch(path, {"secret": [SECOND]}),
        keeper.patch(path, {"secret": SECOND, "deadline_s": -1}),
        keeper.get(path),
        keeper.get("/webhooks"),
        keeper.get(f"{path}/changes"),
    ]
    assert [answer.status_code for answer in answers[2:]] == [200, 400, 400, 200, 200, 200]
    [settings] = policy_snapshot_read().webhooks.values()

    assert settings.secret == SECOND
    assert tables_with("hook.example") == ["hooks_webhook"]
    sealed = Webhook.objects.get().secret_encrypted
    for secret in (FIRST, SECOND):
        for form in forms(secret):
            assert tables_with(form) == []
            assert form not in caplog.text
            assert not [answer for answer in answers if form.encode() in answer.content]
    assert not [answer for answer in answers if sealed.encode() in answer.content]
    assert sealed not in caplog.text


def test_after_the_key_was_replaced_a_secret_is_read_with_the_old_one_or_not_at_all(keeper, settings, caplog):
    keeper.post("/webhooks", {"name": "review", "url": "https://hook.example/", "secret": FIRST})
    old, settings.SECRET_KEY = settings.SECRET_KEY, "n" * 50

    assert policy_snapshot_read().webhooks == {}
    assert "'review'" in caplog.text and "SKIPPY_OLD_SECRET_KEYS" in caplog.text
    assert FIRST not in caplog.text and old not in caplog.text
    with pytest.raises(SecretUnreadable, match="'review'"):
        secret_box().open(Webhook.objects.get().secret_encrypted, owner="review")
    settings.SECRET_KEY_FALLBACKS = [old]
    [read] = policy_snapshot_read().webhooks.values()
    assert read.secret == FIRST
