"""A key's secret part, followed through everything that could keep it: only the one page may have it.

Each key goes the ways that keys go (made in the admin, by a service, by a command; used well,
expired, revoked, mistyped), and then every table, session, message, log line and page is searched.
"""

from __future__ import annotations

import io
import logging
import re
from datetime import timedelta

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts import services
from accounts.contracts import KeyState
from accounts.last_used import LastUsedBuffer
from accounts.models import ApiKey
from accounts.selectors import api_key_lookup

pytestmark = pytest.mark.django_db(transaction=True)

LIST = reverse("admin:accounts_apikey_changelist")
ADD = reverse("admin:accounts_apikey_add")


def everything_stored() -> str:
    """All rows of all tables as text, sessions also unpacked."""
    texts = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            name = connection.ops.quote_name(table)
            cursor.execute(f"SELECT row_to_json(t)::text FROM {name} AS t")  # noqa: S608 (names of our tables)
            texts.extend(row for (row,) in cursor.fetchall())
    texts.extend(repr(session.get_decoded()) for session in Session.objects.all())
    assert any("visible_prefix" in text for text in texts)
    return "\n".join(texts)


def made_in_the_admin(client: Client, user: User) -> str:
    html = client.get(ADD).content.decode()
    found = re.search(r'name="submission_id" value="([^"]+)"', html)
    assert found
    sent = {
        "user": user.pk,
        "name": "by admin",
        "submission_id": found[1],
        "expires_at_0": "",
        "expires_at_1": "",
    }
    return key_in(client.post(ADD, sent).content.decode())


def key_in(text: str) -> str:
    (plaintext,) = re.findall(r"sk-skippy-[0-9A-Za-z]{49}", text)
    return plaintext


def ways_of_keys(client: Client, ann: User) -> dict[str, str]:
    """Keys that were made and ended in every way, by what became of them."""
    out = io.StringIO()
    call_command("api_key_create", "--user", "ann", "--name", "by command", stdout=out)
    by_command = key_in(out.getvalue())
    by_admin = made_in_the_admin(client, ann)
    row = ApiKey.objects.get(name="by admin")
    rotated = key_in(
        client.post(reverse("admin:accounts_apikey_rotate", args=[row.pk]), {"grace": "1h"}).content.decode()
    )
    revoked_row, revoked = services.api_key_create(user=ann, name="revoked")
    client.post(reverse("admin:accounts_apikey_revoke", args=[revoked_row.pk]))
    expired_row, expired = services.api_key_create(user=ann, name="expired")
    now = timezone.now()
    ApiKey.objects.filter(pk=expired_row.pk).update(created_at=now - timedelta(2), expires_at=now)
    _, leaked = services.api_key_create(user=ann, name="leaked")
    call_command("api_key_revoke", leaked.plaintext, stdout=io.StringIO())
    with pytest.raises(CommandError) as caught:
        call_command("api_key_revoke", by_command[:-1])
    assert by_command[16:-4] not in str(caught.value)
    first = services.administrator_create_first(username="first")
    assert first is None  # there is a superuser already: the one who is signed in
    client.get(LIST, {"q": by_command})
    return {
        "by_command": by_command,
        "by_admin": by_admin,
        "rotated": rotated,
        "revoked": revoked.plaintext,
        "expired": expired.plaintext,
        "leaked": leaked.plaintext,
    }


async def test_the_secret_part_is_kept_by_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client()

    def prepare() -> dict[str, str]:
        client.force_login(User.objects.create_superuser("root"))
        return ways_of_keys(client, services.user_ensure(username="ann"))

    made = await database_sync_to_async(prepare)()
    buffer = LastUsedBuffer()
    answers = []
    for plaintext in made.values():
        lookup = await api_key_lookup(plaintext=plaintext)
        answers.append(repr(lookup))
        if lookup.principal is not None:
            buffer.note(lookup.principal.key_id)
    assert await buffer.flush()
    states = [(await api_key_lookup(plaintext=plaintext)).state for plaintext in made.values()]
    assert states == [KeyState.VALID] * 3 + [KeyState.REVOKED, KeyState.EXPIRED, KeyState.REVOKED]

    def pages() -> str:
        urls = [LIST, ADD, reverse("admin:index"), reverse("admin:auth_user_changelist")]
        for row in ApiKey.objects.all():
            urls += [
                reverse(f"admin:accounts_apikey_{name}", args=[row.pk])
                for name in ("change", "history", "rotate", "revoke")
            ]
        texts = []
        for url in urls:
            response = client.get(url)
            texts.append(response.content.decode() + response.serialize_headers().decode())
        return "\n".join([*texts, client.cookies.output()])

    shown = await database_sync_to_async(pages)()
    stored = await database_sync_to_async(everything_stored)()
    digests = await database_sync_to_async(list)(ApiKey.objects.values_list("digest", flat=True))
    assert len(digests) == 6
    logged = "\n".join(f"{record.getMessage()} {record.args!r}" for record in caplog.records)
    for name, plaintext in made.items():
        secret = plaintext[16:-4]
        for place, text in {
            "stored": stored,
            "shown": shown,
            "logged": logged,
            "answers": repr(answers),
        }.items():
            assert secret not in text, f"the secret part of {name} is {place}"
            assert plaintext[20:40] not in text, f"a part of {name} is {place}"
        assert plaintext[:16] in stored
    for digest in digests:
        assert digest not in shown
