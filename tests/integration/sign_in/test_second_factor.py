"""The second factor: set up, asked for, used once, required, taken away."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client

from accounts.models import AdministrativeChange, SignInAttempts
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from accounts.sign_in.second_factor import totp_accept
from inference.dashboards.live.rights import watching_sessions
from tests.integration.sign_in.conftest import CODE, LOGIN, PASSWORD, SECURITY
from tests.totp_app import TotpApp

pytestmark = pytest.mark.django_db


def history() -> list[tuple[str, str]]:
    rows = AdministrativeChange.objects.filter(subject_kind="second_factor").order_by("pk")
    return [(row.action, row.subject_label) for row in rows]


class TestOfOnesOwn:
    @pytest.fixture
    def client(self) -> Client:
        return Client()

    def test_set_up_and_signed_in_with(self, client, ann, sign_in, set_up) -> None:
        elsewhere = Client()
        sign_in("ann", client=elsewhere)
        app = set_up("ann", client)
        assert elsewhere.get("/console/").status_code == 302  # begun without it
        assert client.get("/console/").status_code == 200
        assert len(set(app.recovery_codes)) == 10
        # Shown once.
        shown = client.get(f"{SECURITY}codes/").text
        assert not any(code in shown for code in app.recovery_codes)
        fresh = Client()
        assert sign_in("ann", client=fresh).url == CODE
        assert fresh.get("/console/").status_code == 302
        assert fresh.get(LOGIN).url == CODE
        # The code that set it up, nor any other of that time, is good again.
        assert "was used already" in fresh.post(CODE, {"code": app.set_up_with}).text
        later = app.code(later=1)
        assert fresh.post(CODE, {"code": f"{later[:3]} {later[3:]}"}).url == "/console/"
        assert fresh.get("/console/").status_code == 200
        other = Client()
        sign_in("ann", client=other)
        for code in (later, "000000", "", "٠١٢٣٤٥", "x" * 99, "1\0"):
            assert other.post(CODE, {"code": code}).status_code in (200, 429)
        assert other.post(CODE, {}).url == CODE
        assert history() == [("created", "totp of ann")]
        ways = AdministrativeChange.objects.filter(subject_kind="sign_in").latest("pk").changes["by"]
        assert ways == [None, "password, second factor"]

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("is_double_click", [True, False])
    def test_two_at_once_set_up_one(self, client, ann, sign_in, monkeypatch, is_double_click) -> None:
        page, other, gate = f"{SECURITY}set-up/", Client(), Barrier(2, timeout=20)
        sign_in("ann", client=client)
        if is_double_click:
            other.cookies["sessionid"] = client.cookies["sessionid"].value
        else:
            sign_in("ann", client=other)
        for one in (client, other):
            one.post(f"/console/account/again/?next={page}", {"password": PASSWORD})
        # As they are shown; the second click sends the form of the first.
        secrets = [one.get(page).context["form"].secret for one in (client, other)]
        codes = [TotpApp(secret).code() for secret in (secrets[-1:] * 2 if is_double_click else secrets)]

        def both_have_none(*arguments: Any) -> bool:
            found = is_mfa_enabled(*arguments)
            gate.wait()
            return found

        def post(one: Client, code: str) -> Any:
            try:
                return one.post(page, {"code": code})
            finally:
                connection.close()

        monkeypatch.setattr("allauth.mfa.totp.views.is_mfa_enabled", both_have_none)
        with ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(post, (client, other), codes))
        assert [answer.url for answer in answers] == [f"{SECURITY}codes/"] * 2
        assert sorted(Authenticator.objects.values_list("type", flat=True)) == ["recovery_codes", "totp"]
        assert history() == [("created", "totp of ann")]
        shown = [one.get(f"{SECURITY}codes/") for one in (client, other)]
        assert sum(answer.context["can_view_codes"] for answer in shown if answer.context) == 1
        # One that comes later is led there too, and not to where the factor is removed.
        first = client if shown[0].context else other  # whose session did not end
        assert first.post(page, {"code": codes[0]}).url == f"{SECURITY}codes/"
        assert first.get(page).url == SECURITY

    def test_codes_wait_for_who_looks(self, client, ann, set_up) -> None:
        """They are shown once."""
        old, page = set_up("ann", client).recovery_codes, f"{SECURITY}codes/"
        assert client.post(f"{page}new/").url == page
        assert client.head(page).status_code == 200
        for name, value in (
            ("Sec-Purpose", "prefetch;prerender"),
            ("Purpose", "prefetch"),
            ("X-Moz", "prefetch"),
        ):
            ahead = client.get(page, headers={name: value})
            assert (ahead.status_code, "no-store" in ahead["Cache-Control"]) == (503, True)
        shown = client.get(page)
        assert shown.context["can_view_codes"] and not set(old) & set(shown.context["unused_codes"])
        assert not client.get(page).context["can_view_codes"]

    def test_a_recovery_code_once(self, client, ann, sign_in, set_up) -> None:
        code = set_up("ann", client).recovery_codes[3]
        first, second = Client(), Client()
        for one in (first, second):
            sign_in("ann", client=one)
        assert first.post(CODE, {"code": code}).status_code == 302
        assert "was used already" in second.post(CODE, {"code": code}).text
        row = AdministrativeChange.objects.get(subject_kind="second_factor", action="used")
        assert (row.actor_name, row.subject_user_id, code in str(row.changes)) == ("ann", ann.pk, False)

    def test_codes_are_not_for_guessing(self, client, ann, sign_in, set_up) -> None:
        app = set_up("ann", client)
        codes = []
        for _ in range(3):  # from anew each time, so that no session can be thrown away instead
            fresh = Client()
            sign_in("ann", client=fresh)
            codes += [fresh.post(CODE, {"code": "000000"}).status_code for _ in range(2)]
        assert codes == [200] * 5 + [429]
        assert fresh.post(CODE, {"code": app.code(later=1)}).status_code == 429

    def test_nobody_skips_the_code(self, client, ann, root, sign_in, set_up) -> None:
        set_up("ann", client)
        half = Client()
        sign_in("ann", client=half)
        for path in ("/console/", SECURITY, "/admin/", "/console/account/"):
            assert half.get(path).status_code == 302
        assert half.get("/api/me").status_code == 401
        # What he has begun is not the next one's.
        half.post("/console/logout/")
        assert half.get(CODE).url == LOGIN
        assert sign_in("root", client=half).url == "/console/"
        assert half.session.get("second_factor") is None

    def test_secrets_are_stored_encrypted(self, client, ann, set_up, settings) -> None:
        app = set_up("ann", client)
        kept = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
        assert app.secret not in kept
        assert not any(code in kept for code in app.recovery_codes)
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another" * 8, [settings.SECRET_KEY]
        row = Authenticator.objects.get(type="totp")
        assert totp_accept(authenticator_id=row.pk, code=app.code(later=1))

    def test_a_lost_secret_key_is_said(self, client, ann, sign_in, set_up, settings) -> None:
        app = set_up("ann", client)
        settings.SECRET_KEY = "another" * 8
        fresh = Client()
        sign_in("ann", client=fresh)
        assert "cannot be read" in fresh.post(CODE, {"code": app.code(later=1)}).text

    def test_removed_after_the_password_alone(self, client, ann, sign_in, set_up) -> None:
        set_up("ann", client)
        session = client.session
        session.pop("account_authentication_methods")
        session.save()
        page = f"{SECURITY}remove/"
        assert client.post(page).url == page  # the password was asked for too long ago
        assert client.get(page).url.startswith("/console/account/again/")
        assert "not right" in client.post(f"/console/account/again/?next={page}", {"password": "x"}).text
        client.post(f"/console/account/again/?next={page}", {"password": PASSWORD})
        assert client.post(page).url == SECURITY
        assert history()[-2:] == [("deleted", "totp of ann"), ("deleted", "recovery_codes of ann")]
        assert sign_in("ann").url == "/console/"

    def test_taken_away_by_the_operator(self, client, ann, sign_in, set_up, capsys) -> None:
        set_up("ann", client)
        call_command("second_factor_remove", "ann")
        assert client.get("/console/").status_code == 302
        assert sign_in("ann").url == "/console/"
        call_command("second_factor_remove", "ann")
        assert capsys.readouterr().out.splitlines() == [
            "ann signs in with the password alone. Sessions have ended.",
            "ann has no second factor.",
        ]
        last = AdministrativeChange.objects.filter(subject_kind="second_factor").latest("pk")
        assert (last.door, last.action, last.subject_user_id) == ("command", "deleted", ann.pk)

    def test_the_password_again_is_not_for_guessing(self, client, ann, sign_in) -> None:
        sign_in("ann", client=client)
        page = "/console/account/again/?next=/console/account/password/"
        answers = [client.post(page, {"password": "wrong"}).status_code for _ in range(6)]
        assert answers == [200] * 5 + [429]


class TestRequired:
    @pytest.fixture
    def people(self, root, ann) -> dict[str, Client]:
        role_groups_ensure()
        found = {"root": Client(), "key owner": Client()}
        for role in (Role.ADMINISTRATOR, Role.AUDITOR):
            user = User.objects.create_user(role.value, password=PASSWORD)
            role_set(user=user, role=role)
            found[role.value] = Client()
        for name, client in found.items():
            client.post(LOGIN, {"username": {"key owner": "ann"}.get(name, name), "password": PASSWORD})
        return found

    @pytest.mark.parametrize(
        ("rule", "held"),
        [
            ("off", set()),
            ("administrators", {"root", "administrator"}),
            ("staff", {"root", "administrator", "auditor"}),
            ("all", {"root", "administrator", "auditor", "key owner"}),
        ],
    )
    def test_whom_it_concerns(self, people, settings, rule, held) -> None:
        settings.SECOND_FACTOR_RULE = rule
        for name, client in people.items():
            answer = client.get("/console/start/")
            api = client.get("/api/me")
            if name in held:
                assert (answer.url, api.status_code) == (SECURITY, 403)
                assert "second factor" in api.json()["error"]["message"]
                assert "Set it up here" in client.get(SECURITY).text
            else:
                assert (answer.status_code, api.status_code) == (200, 200)

    def test_every_page_and_door_is_held(self, people, settings) -> None:
        client, key = people["root"], people["root"].session.session_key
        assert watching_sessions([key]) == {key}
        settings.SECOND_FACTOR_RULE = "administrators"
        assert watching_sessions([key]) == set()
        for path in (
            "/admin/",
            "/admin/auth/user/",
            "/console/",
            "/console/usage.csv",
            "/console/live/",
            "/console/account/",
            "/console/account/password/",
        ):
            assert client.get(path).url == SECURITY, path
        assert client.post("/admin/auth/user/add/", {"username": "x"}).url == SECURITY
        assert client.post("/console/logout/").url == LOGIN

    def test_set_up_opens_everything(self, root, settings, set_up) -> None:
        settings.SECOND_FACTOR_RULE = "all"
        client = Client()
        set_up("root", client)
        assert client.get("/console/").status_code == 200
        assert client.get("/api/me").status_code == 200
        key = client.session.session_key
        assert watching_sessions([key]) == {key}
        Authenticator.objects.all().delete()
        assert client.get("/console/").url == SECURITY

    def test_a_session_that_was_begun_without_it_begins_anew(self, root, settings, set_up, sign_in) -> None:
        client, other = Client(), Client()
        app = set_up("root", client)
        other.force_login(root)
        settings.SECOND_FACTOR_RULE = "all"
        assert other.get("/console/start/").url == f"{LOGIN}?next=/console/start/"
        page = other.get(f"{LOGIN}?next=/console/start/")
        assert "begun without it" in page.text
        given = {"username": "root", "password": PASSWORD, "next": "/console/start/"}
        assert other.post(LOGIN, given).url == CODE
        assert other.post(CODE, {"code": app.code(later=1)}).url == "/console/start/"

    def test_keys_are_not_concerned(self, ann, settings) -> None:
        from accounts import services
        from accounts.scopes import Scope

        settings.SECOND_FACTOR_RULE = "all"
        _, minted = services.api_key_create(user=ann, name="k", scopes=frozenset({Scope.USAGE}))
        headers = {"authorization": f"Bearer {minted.plaintext}"}
        assert Client().get("/api/me", headers=headers).status_code == 200


class TestAccount:
    @pytest.fixture
    def client(self, ann, sign_in) -> Client:
        client = Client()
        sign_in("ann", client=client)
        for page in ("password", "email"):
            again = f"/console/account/again/?next=/console/account/{page}/"
            assert client.post(again, {"password": PASSWORD}).status_code == 302
        return client

    def test_a_new_password_ends_other_sessions(self, client, ann, sign_in) -> None:
        other = Client()
        sign_in("ann", client=other)
        new = {"new_password1": "quite another one", "new_password2": "quite another one"}
        page = "/console/account/password/"
        assert "too short" in client.post(page, dict.fromkeys(new, "short")).text
        assert client.post(page, new).url == "/console/account/"
        assert client.get("/console/").status_code == 200
        assert other.get("/console/").status_code == 302
        assert sign_in("ann", "quite another one").status_code == 302
        row = AdministrativeChange.objects.filter(subject_kind="user").latest("pk")
        assert row.changes == {"password": ["(secret)", "(secret)"]}

    def test_an_address_of_ones_own(self, client, ann, root, settings) -> None:
        User.objects.filter(pk=root.pk).update(email="root@example.org")
        page = "/console/account/email/"
        for taken in ("ROOT@example.org", "nonsense"):
            assert client.post(page, {"email": taken}).status_code == 200
        assert client.post(page, {"email": "new@example.org"}).status_code == 302
        ann.refresh_from_db()
        assert ann.email == "new@example.org"
        settings.PROVIDER_LINKS_BY = "email"
        assert client.post(page, {"email": "other@example.org"}).status_code == 403

    def test_erased_with_the_rest(self, ann, client, set_up) -> None:
        from accounts.personal_data import user_erase, user_export

        app = set_up("ann", Client())
        SignInAttempts.objects.create(source="x", user_id=ann.pk)
        told = b"".join(user_export(user=ann)).decode()
        assert '"type": "totp"' in told
        assert "seed" not in told
        assert not any(code in told for code in app.recovery_codes)
        assert user_erase(user=ann)["sign_in"] >= 3
        assert not Authenticator.objects.exists()
        assert not SignInAttempts.objects.filter(user_id=ann.pk).exists()
        assert "127.0.0.1" not in str(list(AdministrativeChange.objects.values()))

    def test_pages_are_strict_and_not_kept(self, client) -> None:
        for path in ("account/", "account/security/", "account/security/set-up/", "account/password/"):
            answer = client.get(f"/console/{path}")
            assert answer.status_code == 200
            assert "no-store" in answer["Cache-Control"]
            assert "unsafe" not in answer["Content-Security-Policy"]
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*src=)", answer.text)
