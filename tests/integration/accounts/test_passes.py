"""Passes of the playground: who gets one, what it opens, and everything that ends it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.signing import TimestampSigner
from django.db.models import F
from django.test import Client
from django.utils import timezone

from accounts import services
from accounts.contracts import KeyState, Limits
from accounts.keys import mint, without_keys
from accounts.models import ApiKey
from accounts.pass_desk import LIFETIME_S, pass_cache, pass_lookup, playground_keys
from accounts.passes import read_pass, read_pass_of
from accounts.scopes import Scope
from inference.api.authentication import Authenticator
from inference.domain.errors import AuthenticationFailed
from skippy_site.logging import JsonFormatter, LineFormatter
from skippy_site.servers.contract import ListenConfig
from skippy_site.servers.early import EarlyRules, RequestHead

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/console/playground/pass/"
in_database = database_sync_to_async


@pytest.fixture(autouse=True)
def forgotten_passes() -> Iterator[None]:
    pass_cache.forget_all()
    yield
    pass_cache.check_integrity()
    pass_cache.forget_all()


@pytest.fixture
def as_ann(ann: User) -> Client:
    client = Client()
    client.force_login(ann)
    return client


@pytest.fixture
def bob() -> User:
    return services.user_ensure(username="bob")


def issued(client: Client, key: Any) -> str:
    answer = client.post(URL, {"key": key.pk})
    assert answer.status_code == 200, answer.content
    assert answer["Cache-Control"].count("no-store") == 1
    told = answer.json()
    assert told["lifetime_s"] == LIFETIME_S
    return told["pass"]


def cookie_of(client: Client) -> tuple[bytes, bytes]:
    return (b"cookie", f"theme=dark; sessionid={client.cookies['sessionid'].value}".encode())


async def looked_up(text: str, client: Client) -> Any:
    return await pass_lookup(text=text, headers=[cookie_of(client)])


async def state(text: str, client: Client) -> KeyState:
    pass_cache.forget_all()  # what 4 s do
    return (await looked_up(text, client)).state


class TestWhatItOpens:
    def test_its_form_fits_into_every_header_that_a_key_fits_into(self, as_ann, key) -> None:
        text = issued(as_ann, key[0])
        assert re.fullmatch(r"sk-skippy-pass-[0-9A-Za-z_.-]+", text)
        assert read_pass([f"Bearer {text}".encode()], []) == text
        longest = (
            "sk-skippy-pass-" + f"{2**63 - 1}.{2**63 - 1}" + text[text.index(".", text.index(".") + 1) :]
        )
        assert read_pass([f"Bearer {longest}".encode()], []) == longest

    async def test_it_is_its_key_to_everybody_behind_it_but_may_only_generate(self, ann, as_ann) -> None:
        limits = Limits(max_requests_per_minute=7, allowed_models=("small",))
        row, _ = await in_database(services.api_key_create)(
            user=ann, name="wide", scopes=frozenset(Scope), limits=limits
        )
        found = await looked_up(await in_database(issued)(as_ann, row), as_ann)
        principal = found.principal
        assert (principal.user_id, principal.key_id, principal.key_name) == (ann.pk, row.pk, "wide")
        assert principal.limits.of_key == limits
        assert principal.scopes == {Scope.INFERENCE}
        assert principal.is_in_playground

    async def test_the_doors_take_it_where_they_take_keys(self, as_ann, key) -> None:
        text = await in_database(issued)(as_ann, key[0])
        used: list[int] = []
        authenticator = Authenticator(
            None, used.append, look_up_pass=lambda shown, headers: pass_lookup(text=shown, headers=headers)
        )
        shown = (b"authorization", f"Bearer {text}".encode())
        principal = await authenticator.authenticate([shown, cookie_of(as_ann)])
        assert (principal.key_id, used) == (key[0].pk, [key[0].pk])
        with pytest.raises(AuthenticationFailed):
            await authenticator.authenticate([shown])  # a pass alone is nothing
        for beside in (shown, (b"x-api-key", text.encode()), (b"x-api-key", mint().plaintext.encode())):
            assert read_pass_of([shown, beside]) is None

        def early(*headers: bytes, api_keys: tuple[bytes, ...] = ()) -> Any:
            head = RequestHead(b"POST", b"/v1/chat/completions", 0, headers, api_keys)
            return EarlyRules(ListenConfig(max_body_bytes=100)).refuse(head, is_draining=False)

        assert early(shown[1]) is None
        assert early(shown[1], shown[1]).status == early(shown[1], api_keys=(b"x",)).status == 401

    def test_not_under_api(self, as_ann, key) -> None:
        text = issued(as_ann, key[0])
        for client in (as_ann, Client()):
            answer = client.get("/api/me", headers={"Authorization": f"Bearer {text}"})
            assert answer.status_code == 401


class TestWhoGetsOne:
    def test_nobody_without_session_or_csrf_token(self, ann, key) -> None:
        assert Client().post(URL, {"key": key[0].pk}).status_code == 302
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(ann)
        assert strict.post(URL, {"key": key[0].pk}).status_code == 403
        assert strict.get(URL).status_code == 405

    def test_for_nobody_elses_key(self, bob, key) -> None:
        as_bob = Client()
        as_bob.force_login(bob)
        bob.is_superuser = bob.is_staff = True
        bob.save()
        answer = as_bob.post(URL, {"key": key[0].pk})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "key_not_found")

    @pytest.mark.parametrize("asked", ["", "x", "-1", "٣", "9" * 30, "1.0", "0"])
    def test_not_for_what_is_no_key(self, as_ann, asked) -> None:
        assert as_ann.post(URL, {"key": asked}).status_code == 404

    def test_not_for_a_key_that_opens_nothing_or_may_not_generate(self, ann, as_ann, key) -> None:
        reads, _ = services.api_key_create(user=ann, name="reads", scopes=frozenset({Scope.USAGE}))
        answer = as_ann.post(URL, {"key": reads.pk})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")
        services.api_key_revoke(key=key[0])
        answer = as_ann.post(URL, {"key": key[0].pk})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "api_key_revoked")

    def test_of_very_many_keys_the_newest_good_ones_are_listed(self, ann, monkeypatch) -> None:
        monkeypatch.setattr("accounts.pass_desk.MAX_LISTED", 2)
        rows = [services.api_key_create(user=ann, name=f"number {number}")[0] for number in range(5)]
        services.api_key_revoke(key=rows[4])
        soon = F("created_at") + timedelta(microseconds=1)
        ApiKey.objects.filter(pk=rows[3].pk).update(expires_at=soon)
        assert [one.name for one in playground_keys(user=ann)] == ["number 2", "number 1"]


class TestWhatEndsIt:
    @pytest.fixture
    def shown(self, as_ann, key) -> str:
        return issued(as_ann, key[0])

    async def test_five_minutes(self, as_ann, shown, monkeypatch) -> None:
        import time

        now = time.time()
        monkeypatch.setattr("django.core.signing.time.time", lambda: now + LIFETIME_S - 2)
        assert await state(shown, as_ann) is KeyState.VALID
        monkeypatch.setattr("django.core.signing.time.time", lambda: now + LIFETIME_S + 2)
        assert await state(shown, as_ann) is KeyState.EXPIRED

    async def test_another_session_also_of_the_same_user(self, ann, as_ann, shown) -> None:
        other = Client()
        await in_database(other.force_login)(ann)
        assert await state(shown, other) is KeyState.UNKNOWN
        assert (await pass_lookup(text=shown, headers=[])).state is KeyState.UNKNOWN
        assert (await pass_lookup(text=shown, headers=[(b"cookie", b"sessionid=")])).state is KeyState.UNKNOWN

    async def test_signing_out(self, as_ann, shown) -> None:
        cookie = cookie_of(as_ann)
        assert await state(shown, as_ann) is KeyState.VALID
        await in_database(as_ann.post)("/console/logout/")
        pass_cache.forget_all()
        assert (await pass_lookup(text=shown, headers=[cookie])).state is KeyState.UNKNOWN

    async def test_a_new_password(self, ann, as_ann, shown) -> None:
        ann.set_password("another long password")
        await ann.asave()
        assert await state(shown, as_ann) is KeyState.UNKNOWN

    async def test_the_end_of_the_session(self, as_ann, shown) -> None:
        await Session.objects.aupdate(expire_date=timezone.now() - timedelta(seconds=1))
        assert await state(shown, as_ann) is KeyState.UNKNOWN

    async def test_a_user_who_is_switched_off(self, ann, as_ann, shown) -> None:
        ann.is_active = False
        await ann.asave()
        assert await state(shown, as_ann) is KeyState.USER_INACTIVE

    async def test_a_revoked_key(self, as_ann, key, shown) -> None:
        await in_database(services.api_key_revoke)(key=key[0])
        assert await state(shown, as_ann) is KeyState.REVOKED

    async def test_an_expired_key(self, as_ann, key, shown) -> None:
        assert await state(shown, as_ann) is KeyState.VALID
        end = timezone.now() - timedelta(seconds=1)
        await type(key[0]).objects.aupdate(created_at=end - timedelta(days=1), expires_at=end)
        assert await state(shown, as_ann) is KeyState.EXPIRED

    async def test_a_scope_that_was_taken(self, as_ann, key, shown) -> None:
        await type(key[0]).objects.aupdate(scopes=[Scope.USAGE.value])
        pass_cache.forget_all()
        assert (await looked_up(shown, as_ann)).principal.scopes == frozenset()

    async def test_any_other_signature(self, ann, bob, as_ann, key, shown) -> None:
        session = as_ann.cookies["sessionid"].value
        body = shown.removeprefix("sk-skippy-pass-")
        bobs, _ = await in_database(services.api_key_create)(user=bob, name="bob's")
        claims = f"{bobs.pk}.{ann.pk}"
        forged = [
            "sk-skippy-pass-" + body[:-1] + ("A" if body[-1] != "A" else "B"),
            "sk-skippy-pass-" + body.replace(f"{key[0].pk}.", f"{bobs.pk}.", 1),
            "sk-skippy-pass-",
            "sk-skippy-pass-...",
            "sk-skippy-pass-" + TimestampSigner(sep=".").sign(f"{key[0].pk}.{ann.pk}"),
            "sk-skippy-pass-"
            + TimestampSigner(sep=".", key="other", salt=f"accounts.pass_desk.{session}").sign(claims),
            body,
        ]
        before = pass_cache.statistics().num_queries
        for text in forged:
            assert await state(text, as_ann) is KeyState.UNKNOWN, text
        assert pass_cache.statistics().num_queries == before  # a forger costs the database nothing
        # Signed well, and yet not his key: it would take our secret, and still opens nothing.
        signed = TimestampSigner(sep=".", salt=f"accounts.pass_desk.{session}").sign(claims)
        assert await state("sk-skippy-pass-" + signed, as_ann) is KeyState.UNKNOWN


def test_nothing_shows_it(as_ann, key) -> None:
    text = issued(as_ann, key[0])
    secret = text.rpartition(".")[2]
    for shape in (text, f"Bearer {text}", json.dumps({"k": text}), f"({text}), {mint().plaintext}"):
        record = logging.LogRecord("x", logging.ERROR, "f.py", 1, shape, (), None)
        for said in (
            without_keys(shape),
            LineFormatter("%(message)s").format(record),
            JsonFormatter().format(record),
        ):
            assert secret not in said
            assert "sk-skippy-pass-…" in said
