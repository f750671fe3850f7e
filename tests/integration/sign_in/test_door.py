"""The one door: where it leads, how often it may be tried, and that its answers tell nothing."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from accounts.models import AdministrativeChange, SignInAttempts
from accounts.sign_in.attempt_rules import ADDRESS, NAME, ONE_OF_ONE
from accounts.sign_in.attempts import (
    SignInTry,
    TooManyAttempts,
    attempt_begin,
    attempt_succeeded,
    attempts_expire,
    network_of,
)
from tests.integration.sign_in.conftest import LOGIN, PASSWORD

pytestmark = pytest.mark.django_db
WRONG = "The user name or the password is not right."


def pauses_pass() -> None:
    SignInAttempts.objects.update(refused_until=timezone.now() - timedelta(seconds=1))


class TestWhereItLeads:
    def test_the_admin_has_no_other_one(self, client, ann, root, sign_in) -> None:
        assert client.get("/admin/").url == "/admin/login/?next=/admin/"
        assert client.get("/admin/login/?next=/admin/auth/user/").url == f"{LOGIN}?next=/admin/auth/user/"
        assert client.get("/admin/login/?next=//evil.example/").url == f"{LOGIN}?next=/admin/"
        # A form that is sent there signs nobody in.
        client.post("/admin/login/", {"username": "root", "password": PASSWORD})
        assert "_auth_user_id" not in client.session
        assert client.get("/admin/password_change/").url == "/console/account/password/"
        sign_in("ann", client=client)
        refused = client.get("/admin/", follow=True)
        assert (refused.status_code, "may not open the administration" in refused.text) == (403, True)
        staff = Client()
        sign_in("root", client=staff)
        assert staff.get("/admin/login/?next=/admin/auth/user/").url == "/admin/auth/user/"

    @pytest.mark.parametrize(
        "there", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "///x"]
    )
    def test_to_no_other_site(self, client, ann, there) -> None:
        given = {"username": "ann", "password": PASSWORD, "next": there}
        assert client.post(f"{LOGIN}?next={there}", given).url == "/console/"

    def test_by_name_or_by_an_address_that_one_alone_has(self, ann, root, sign_in) -> None:
        assert sign_in("ann@EXAMPLE.org").status_code == 302
        other = User.objects.create_user("other", email="ann@example.org", password=PASSWORD)
        assert WRONG in sign_in("ann@example.org").text
        # A name that is somebody's address is that name's.
        other.username = "root@example.org"
        other.save()
        User.objects.filter(pk=root.pk).update(email="root@example.org")
        client = Client()
        sign_in("root@example.org", client=client)
        assert client.session["_auth_user_id"] == str(other.pk)
        assert WRONG in sign_in("").text or "required" in sign_in("").text

    @pytest.mark.parametrize(
        "path", ["signup/", "email/", "password/reset/", "login/code/confirm/", "confirm-email/", "inactive/"]
    )
    def test_what_is_not_used_is_not_there(self, client, path) -> None:
        assert client.get(f"/console/{path}").status_code == 404

    def test_only_post_signs_out(self, client, ann, sign_in) -> None:
        sign_in("ann", client=client)
        assert client.get("/console/logout/").status_code == 405
        assert client.post("/console/logout/").url == LOGIN
        assert client.get("/console/").status_code == 302


class TestAnswers:
    def test_unknown_switched_off_without_password_and_wrong_are_one(self, client, ann, sign_in) -> None:
        User.objects.create_user("off", password=PASSWORD, is_active=False)
        User.objects.create_user("program")
        pages = {
            sign_in(name, password).text.split("</form>")[0].replace(name, "NAME").split("csrfmiddleware")[0]
            for name, password in (
                ("nobody", PASSWORD),
                ("off", PASSWORD),
                ("off", "x"),
                ("program", "x"),
                ("ann", "wrong"),
            )
        }
        assert len(pages) == 1
        assert WRONG in pages.pop()

    @pytest.mark.parametrize("name", ["nobody", "nobody@example.org", "off", "program", "ann", "twice@x.org"])
    def test_each_costs_one_hash_and_as_many_queries(
        self, ann, sign_in, name, monkeypatch, django_assert_num_queries
    ) -> None:
        from django.contrib.auth import hashers

        User.objects.create_user("off", password=PASSWORD, is_active=False)
        User.objects.create_user("program")
        for twin in ("a", "b"):
            User.objects.create_user(twin, email="twice@x.org", password=PASSWORD)
        client = Client()
        client.get(LOGIN)
        hashed = []
        plain = hashers.MD5PasswordHasher.encode
        monkeypatch.setattr(
            hashers.MD5PasswordHasher,
            "encode",
            lambda self, *given: hashed.append(1) or plain(self, *given),
        )
        with django_assert_num_queries(8):
            sign_in(name, "wrong", client=client)
        assert len(hashed) == 1

    def test_nothing_that_was_typed_is_told_or_kept(self, client, ann, sign_in, caplog) -> None:
        with caplog.at_level(logging.DEBUG):
            sign_in("my secret password", "another secret")
            sign_in("ann", "a third secret")
        assert "secret" not in caplog.text
        assert f"user {ann.pk}" in caplog.text
        assert "secret" not in str(list(SignInAttempts.objects.values()))
        assert not AdministrativeChange.objects.filter(subject_kind="sign_in").exists()

    def test_who_came_in_is_in_the_history(self, client, ann, sign_in) -> None:
        sign_in("ann", client=client, REMOTE_ADDR="203.0.113.9")
        row = AdministrativeChange.objects.get(subject_kind="sign_in")
        assert (row.actor_name, row.action, row.subject_user_id) == ("ann", "signed in", ann.pk)
        assert row.changes == {"by": [None, "password"], "address": [None, "203.0.113.9"]}
        assert "203.0.113.9" in client.get("/console/account/").text

    def test_hostile_forms(self, ann, sign_in) -> None:
        for name, password in (("ann", "x" * 100_000), ("a" * 10_000, "x"), ("ann\0", "x"), ("ann", "x\0y")):
            assert sign_in(name, password).status_code == 200

    def test_without_the_database_it_says_so(self, monkeypatch) -> None:
        def away(*_: object) -> None:
            raise OperationalError("gone")

        monkeypatch.setattr("accounts.sign_in.pauses.attempt_begin", away)
        client = Client(raise_request_exception=False)
        answer = client.post(LOGIN, {"username": "ann", "password": "x"})
        assert (answer.status_code, "database" in answer.text) == (503, True)


class TestTries:
    def test_after_some_failures_one_waits_and_the_page_says_how_long(self, ann, sign_in) -> None:
        answers = [sign_in("ann", "wrong") for _ in range(10)]
        assert [one.status_code for one in answers] == [200] * 5 + [429] * 5
        last = answers[-1]
        assert 1 <= int(last["Retry-After"]) <= 15
        assert f"{last['Retry-After']} seconds" in last.text
        # The right password does not help either, and neither does another address of the same user's.
        assert sign_in("ann").status_code == sign_in("ann@example.org").status_code == 429
        # What was refused was not counted.
        assert SignInAttempts.objects.filter(num_failed__gt=5).count() == 0
        # Others, and he from elsewhere, go on.
        assert sign_in("ann", REMOTE_ADDR="203.0.113.9").status_code == 302

    def test_names_that_nobody_has_are_counted_alike(self, db, sign_in) -> None:
        answers = [sign_in(name, "wrong") for name in ["nobody", "NOBODY"] * 3]
        assert [one.status_code for one in answers] == [200] * 5 + [429]

    def test_pauses_grow_and_end(self, ann, sign_in) -> None:
        for num_failed, wait_s in ((5, 15), (6, 30), (7, 60), (8, 120), (11, 900), (40, 900)):
            assert ONE_OF_ONE.pause_after(num_failed) == timedelta(seconds=wait_s)
        for _ in range(5):
            attempt_begin(SignInTry("127.0.0.1", "ann", ann.pk))
        pauses_pass()
        assert sign_in("ann", "wrong").status_code == 200
        assert 25 <= int(sign_in("ann", "wrong")["Retry-After"]) <= 30
        pauses_pass()
        assert sign_in("ann").status_code == 302
        assert sign_in("ann", "wrong").status_code == 200

    def test_one_address_with_many_names(self, db, sign_in) -> None:
        for number in range(ADDRESS.num_free - 1):
            attempt_begin(SignInTry("127.0.0.1", f"name-{number}", None))
        assert [sign_in(name, "wrong").status_code for name in ("a", "b")] == [200, 429]
        assert sign_in("other", "wrong", REMOTE_ADDR="2001:db8::1").status_code == 200

    def test_one_name_from_many_addresses_does_not_shut_its_owner_out(self, ann, sign_in) -> None:
        home = Client()
        assert sign_in("ann", client=home).status_code == 302
        home.post("/console/logout/")
        for number in range(NAME.num_free):
            attempt_begin(SignInTry(f"198.51.100.{number}", "ann", ann.pk))
        answer = sign_in("ann", "wrong", REMOTE_ADDR="203.0.113.9")
        assert answer.status_code == 429
        assert int(answer["Retry-After"]) <= NAME.max_pause.total_seconds()
        # In a browser that he has used before he is let in, also where the address is busy.
        for number in range(ADDRESS.num_free):
            attempt_begin(SignInTry("127.0.0.1", f"name-{number}", None))
        assert sign_in("other", "wrong").status_code == 429
        assert sign_in("ann", client=home).status_code == 302
        # Which is no way round for guessing there.
        home.post("/console/logout/")
        assert [sign_in("ann", "wrong", client=home).status_code for _ in range(6)][-1] == 429
        # Nor for others' names, nor with a forged cookie.
        assert sign_in("root", "wrong", client=home).status_code == 429
        home.cookies["skippy_device"] = home.cookies["skippy_device"].value[:-2] + "xx"
        assert sign_in("ann", client=home).status_code == 429

    def test_a_guesser_s_own_account_does_not_wash_his_guesses_off(self, ann) -> None:
        for number in range(ADDRESS.num_free - 1):
            attempt_begin(SignInTry("192.0.2.1", f"name-{number}", None))
            own = attempt_begin(SignInTry("192.0.2.1", "ann", ann.pk))
            attempt_succeeded(own)
        attempt_begin(SignInTry("192.0.2.1", "a", None))
        own = SignInTry("192.0.2.1", "ann", ann.pk)
        with pytest.raises(TooManyAttempts):
            attempt_begin(own)

    def test_networks(self) -> None:
        assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
        assert network_of("2001:db8:1:2:3::4") == network_of("2001:db8:1:2::") == "2001:db8:1:2::/64"
        assert network_of("unix") == "unix"

    def test_old_ones_are_deleted(self, db) -> None:
        attempt_begin(SignInTry("192.0.2.1", "a", None))
        assert attempts_expire() == 0
        assert attempts_expire(timezone.now() + timedelta(days=2)) == 3

    def test_the_operator_clears_them(self, ann, sign_in, capsys) -> None:
        for _ in range(6):
            sign_in("ann", "wrong")
        call_command("sign_in_clear", "ann")
        assert sign_in("ann").status_code == 302
        for number in range(ADDRESS.num_free - 5):  # with those five of before
            attempt_begin(SignInTry("127.0.0.1", f"name-{number}", None))
        assert sign_in("ann").status_code == 429
        call_command("sign_in_clear", address="127.0.0.1")
        assert sign_in("ann").status_code == 302
        call_command("sign_in_clear", address="127.0.0.9")
        assert capsys.readouterr().out.splitlines() == [
            "Cleared.",
            "Cleared.",
            "Nothing was counted against them.",
        ]
        for given in ({}, {"address": "nowhere"}, {"user": "nobody"}):
            with pytest.raises(CommandError):
                call_command("sign_in_clear", **given)


@pytest.mark.django_db
def test_no_spelling_of_a_name_tells_who_is_here(sign_in) -> None:
    """Of a name that nobody has, all spellings count as one."""
    User.objects.create_user("ivi", email="ivi@example.org", password=PASSWORD)
    for known, unknown in (("ivi", "imi"), ("ivi@example.org", "imi@example.org")):
        told = [
            [
                sign_in(spelt, "wrong", REMOTE_ADDR=f"192.0.2.{len(name)}").status_code
                for spelt in (*[name] * 6, name.upper(), name.capitalize(), name.replace("i", "\u0131"))
            ]
            for name in (unknown, known)
        ]
        assert told[0] == told[1]
        assert set(told[0][6:]) == {429}
        SignInAttempts.objects.all().delete()


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_no_more_are_looked_at_than_are_free(in_threads) -> None:
    User.objects.create_user("ann", password=PASSWORD)
    ann = User.objects.get()
    tries = [lambda: attempt_begin(SignInTry("192.0.2.1", "ann", ann.pk)) for _ in range(12)]
    found = in_threads(*tries)
    assert sum(not isinstance(one, TooManyAttempts) for one in found) == ONE_OF_ONE.num_free, found
