"""Invitations and password links: who makes one, what opens, what ends it; nobody keeps the token."""

from __future__ import annotations

import io
import json
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts import password_tokens, services
from accounts.models import AdministrativeChange, ApiKey, PasswordLink
from accounts.models.password_link import LinkPurpose, LinkState
from accounts.password_link_rights import LinkMaker
from accounts.password_links import (
    LinkClosed,
    invitation_create,
    password_link_create,
    password_link_find,
    password_link_revoke,
    password_link_use,
    user_invite,
)
from accounts.personal_data import user_erase, user_export
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from skippy_site.logging import JsonFormatter, LineFormatter

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"


def page_of(token: str) -> str:
    return reverse("console:welcome", args=[token])


def sent(password: str = PASSWORD) -> dict[str, str]:
    return {"new_password1": password, "new_password2": password}


class TestALink:
    def test_sets_a_password_once_and_ends_all_sessions(self, client) -> None:
        link, minted = user_invite(username="ann", email="ann@example.org")
        user = link.user
        assert not user.has_usable_password()
        assert not Client().login(username="ann", password="")
        for _ in range(3):  # link previewers
            page = client.get(page_of(minted.plaintext))
            assert page.status_code == client.head(page_of(minted.plaintext)).status_code == 200
            assert "no-store" in page["Cache-Control"]
            assert page["Referrer-Policy"] == "strict-origin"
        answer = client.post(page_of(minted.plaintext), sent())
        assert (answer.status_code, answer["Location"]) == (302, "/console/login/?next=%2Fconsole%2Fstart%2F")
        assert "Log in as ann" in client.get(answer["Location"]).content.decode()
        assert client.get("/console/").status_code == 302  # the login page lets people in, not the link
        assert client.login(username="ann", password=PASSWORD)
        assert client.get("/console/").status_code == 200
        _, reset = password_link_create(user=user)
        assert Client().post(page_of(reset.plaintext), sent("another long password")).status_code == 302
        assert client.get("/console/").status_code == 302  # signed out
        for used in (minted, reset):
            assert Client().post(page_of(used.plaintext), sent("a third long password")).status_code == 404
        assert Client().login(username="ann", password="another long password")

    @pytest.mark.parametrize("end", ["revoked", "expired", "inactive", "replaced", "otherwise", "erased"])
    def test_that_has_ended_shows_the_page_of_one_that_never_was(self, client, end) -> None:
        link, minted = user_invite(username="ann")
        user = link.user
        match end:
            case "revoked":
                password_link_revoke(link=link)
            case "expired":
                PasswordLink.objects.update(expires_at=timezone.now())
            case "inactive":
                user.is_active = False
                user.save()
            case "replaced":
                _, newer = invitation_create(user=user)
                assert client.get(page_of(newer.plaintext)).status_code == 200
            case "otherwise":
                user.set_password("set by an administrator")
                user.save()
                link.refresh_from_db()
                assert link.state_at(timezone.now()) is LinkState.REVOKED
            case "erased":
                user_erase(user=user)
                assert not PasswordLink.objects.exists()
        before = User.objects.get(pk=user.pk).password
        never = client.get(page_of(password_tokens.mint().plaintext))
        for answer in (client.get(page_of(minted.plaintext)), client.post(page_of(minted.plaintext), sent())):
            assert (answer.status_code, answer.content) == (404, never.content)
            assert answer["Referrer-Policy"] == "strict-origin"
        assert User.objects.get(pk=user.pk).password == before
        with pytest.raises(LinkClosed):
            password_link_use(token=minted.plaintext, password=PASSWORD)

    @pytest.mark.parametrize(
        "token", ["x", "sl-skippy-", "%00", "a" * 4000, "sl-skippy-" + "é" * 43, "../../admin", "' OR 1=1 --"]
    )
    def test_nonsense_asks_the_database_nothing(self, client, django_assert_num_queries, token) -> None:
        with django_assert_num_queries(0), pytest.raises(LinkClosed):
            password_link_find(token=token)
        assert client.get(f"/console/welcome/{token}/").status_code == 404

    @pytest.mark.parametrize(
        "weak", ["short", "ann@example.org", "password123", "", "x" * 1001, "1234567890\0"]
    )
    def test_takes_no_weak_password_and_stays(self, client, weak) -> None:
        _, minted = user_invite(username="ann", email="ann@example.org")
        answer = client.post(page_of(minted.plaintext), sent(weak))
        assert (answer.status_code, "errorlist" in answer.content.decode()) == (200, True)
        mixed = {"new_password1": PASSWORD, "new_password2": "another long password"}
        assert client.post(page_of(minted.plaintext), mixed).status_code == 200
        assert password_link_find(token=minted.plaintext).used_at is None

    def test_needs_the_token_of_its_form(self) -> None:
        _, minted = user_invite(username="ann")
        strict = Client(enforce_csrf_checks=True)
        assert strict.post(page_of(minted.plaintext), sent()).status_code == 403
        assert password_link_find(token=minted.plaintext)

    def test_signs_out_who_was_signed_in_here(self, client) -> None:
        client.force_login(User.objects.create_superuser("root"))
        _, minted = user_invite(username="ann")
        assert client.post(page_of(minted.plaintext), sent()).status_code == 302
        assert client.get("/console/").status_code == 302

    def test_is_nobodys_who_has_a_password_or_is_switched_off(self, ann) -> None:
        ann.set_password(PASSWORD)
        ann.save()
        with pytest.raises(ValidationError, match="has a password"):
            invitation_create(user=ann)
        ann.is_active = False
        ann.save()
        with pytest.raises(ValidationError, match="switched off"):
            password_link_create(user=ann)
        with pytest.raises(ValidationError, match="user of this name"):
            user_invite(username="ANN")


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_sets_the_password_and_one_link_stays_open(in_threads) -> None:
    link, minted = user_invite(username="ann")
    passwords = iter([f"the long password number {number}" for number in range(6)])
    done = in_threads(lambda: password_link_use(token=minted.plaintext, password=next(passwords)), 6)
    assert sum(isinstance(one, PasswordLink) for one in done) == 1
    assert sum(isinstance(one, LinkClosed) for one in done) == 5
    made = in_threads(lambda: password_link_create(user=link.user), 6)
    assert not [one for one in made if isinstance(one, Exception)]
    assert PasswordLink.objects.filter(used_at=None, revoked_at=None).count() == 1


@pytest.mark.django_db
def test_no_invitation_for_who_sets_his_password_just_now() -> None:
    """Who makes invitations alone may have looked a moment ago."""
    _, minted = user_invite(username="ann")
    seen_before = User.objects.get()
    password_link_use(token=minted.plaintext, password="a long password of ann")
    assert not seen_before.has_usable_password()
    with pytest.raises(ValidationError, match="has a password"):
        invitation_create(user=seen_before)
    assert not PasswordLink.objects.filter(used_at=None).exists()


class TestNobodyKeepsTheToken:
    def test_not_the_database_nor_the_history_nor_an_export(self, client) -> None:
        link, minted = user_invite(username="ann")
        _, second = invitation_create(user=link.user)
        client.post(page_of(second.plaintext), sent())
        told = list(AdministrativeChange.objects.filter(subject_kind="password_link").order_by("pk"))
        assert [(one.action, one.door) for one in told] == [
            ("created", "command"),
            ("changed", "command"),
            ("created", "command"),
            ("changed", "link"),
        ]
        assert {one.subject_label for one in told} == {told[-1].actor_name} == {"ann"}
        assert AdministrativeChange.objects.filter(door="link", changes__has_key="password").exists()
        kept = json.dumps(
            [list(model.objects.values()) for model in (PasswordLink, AdministrativeChange)], default=str
        )
        exported = b"".join(user_export(user=link.user)).decode()
        assert '"purpose": "invitation"' in exported
        for text in (kept, exported, repr(minted), str(link)):
            assert not re.search(rf"{password_tokens.PREFIX}\w", text)
            assert minted.plaintext not in text
        assert minted.digest not in exported

    def test_not_the_log(self, client, caplog) -> None:
        """Django names the path of what it does not find."""
        _, minted = user_invite(username="ann")
        strict = Client(enforce_csrf_checks=True)
        with caplog.at_level(logging.DEBUG):
            strict.post(page_of(minted.plaintext), sent())
            client.post(page_of(minted.plaintext), sent())
            client.get(page_of(minted.plaintext))
            client.get(page_of(minted.plaintext).rstrip("/") + "/more")
        lines = [
            formatter.format(record)
            for record in caplog.records
            if record.name.startswith("django.")
            for formatter in (LineFormatter("%(message)s"), JsonFormatter())
        ]
        assert sum("/console/welcome/sl-skippy-…" in line for line in lines) >= 6
        assert not any(minted.plaintext[len(password_tokens.PREFIX) :][:8] in line for line in lines)

    def test_erasing_takes_links_along_and_leaves_no_name(self) -> None:
        link, _ = user_invite(username="ann.of.many.names")
        erased = user_erase(user=link.user)
        assert erased["password_links"] == 1
        assert "ann.of.many.names" not in json.dumps(list(AdministrativeChange.objects.values()), default=str)


@pytest.fixture
def staff() -> dict[str, User]:
    role_groups_ensure()
    made = {"root": User.objects.create_superuser("root", password=PASSWORD)}
    for role in Role:
        user = User.objects.create_user(role.value, password=PASSWORD)
        role_set(user=user, role=role)
        made[role.value] = User.objects.get(pk=user.pk)
    return made


class TestWhoMayMakeOne:
    def test_a_password_for_whom_has_no_more_rights(self, staff) -> None:
        more = User.objects.create_user("more", password=PASSWORD, is_staff=True)
        more.user_permissions.add(Permission.objects.get(codename="delete_session"))
        targets = {**staff, "more": User.objects.get(pk=more.pk)}
        may = {
            (actor, name): LinkMaker(user).may_reset(target)
            for actor, user in staff.items()
            for name, target in targets.items()
        }
        for name, target in targets.items():
            assert may["root", name]
            assert may["administrator", name] == (name not in ("root", "more"))
            assert not any(may[actor, name] for actor in ("operator", "auditor", "key owner"))
            assert not LinkMaker(None).may_reset(target)

    def test_an_invitation_for_whom_nobody_has_been(self, staff, ann) -> None:
        operator, by_key = LinkMaker(staff["operator"]), LinkMaker(None)
        for maker in (operator, by_key):
            assert maker.may_invite(ann)
            assert maker.roles == (Role.KEY_OWNER,)
            assert not any(maker.may_invite(user) for user in staff.values())
        assert not LinkMaker(staff["auditor"]).may_invite(ann)
        assert not LinkMaker(staff["key owner"]).may_invite(ann)
        key, _ = services.api_key_create(user=ann, name="used")
        assert operator.may_invite(ann)
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=timezone.now())
        assert not operator.may_invite(ann)
        assert LinkMaker(staff["administrator"]).may_invite(ann)
        ann.is_active = False
        assert not LinkMaker(staff["root"]).may_invite(ann)


class TestTheAdmin:
    def invite(self, client: Client, **fields: Any) -> Any:
        form = {"username": "new", "role": "key owner", "max_own_keys": "2", "valid_days": "7", **fields}
        return client.post(reverse("admin:accounts_passwordlink_add"), form)

    def test_invites_and_shows_the_link_once(self, client, staff) -> None:
        client.force_login(staff["operator"])
        assert (
            "administrator: everything"
            not in client.get(reverse("admin:accounts_passwordlink_add")).content.decode()
        )
        page = self.invite(client)
        url = re.search(r'value="(http://testserver/console/welcome/[^"]+/)"', page.content.decode())[1]
        assert "no-store" in page["Cache-Control"]
        assert Client().get(url).status_code == 200
        made = User.objects.get(username="new")
        assert (made.policy.max_own_keys, made.is_staff) == (2, False)
        assert PasswordLink.objects.get().made_by == staff["operator"]
        assert "user of this name" in self.invite(client).content.decode()
        users = client.get(reverse("admin:auth_user_changelist")).content.decode()
        assert "invited" in users
        PasswordLink.objects.update(expires_at=timezone.now() - timedelta(days=1))
        assert "invitation expired" in client.get(reverse("admin:auth_user_changelist")).content.decode()

    @pytest.mark.parametrize("role", ["operator", "administrator", "auditor", "superuser", ""])
    def test_an_operator_invites_key_owners_alone(self, client, staff, role) -> None:
        client.force_login(staff["operator"])
        assert self.invite(client, username="other", role=role).status_code == 200
        assert not User.objects.filter(username="other").exists()

    def test_an_administrator_gives_any_role(self, client, staff) -> None:
        client.force_login(staff["administrator"])
        self.invite(client, username="other", role="auditor")
        made = User.objects.get(username="other")
        assert (made.is_staff, made.groups.get().name) == (True, "auditor")

    def test_a_users_page_makes_a_link(self, client, staff, ann) -> None:
        client.force_login(staff["administrator"])
        for user, purpose in ((ann, LinkPurpose.INVITATION), (staff["operator"], LinkPurpose.RESET)):
            url = reverse("admin:auth_user_link", args=[user.pk])
            assert "/link/" in client.get(reverse("admin:auth_user_change", args=[user.pk])).content.decode()
            assert client.get(url).status_code == 200
            assert not PasswordLink.objects.filter(user=user).exists()
            assert "/console/welcome/sl-skippy-" in client.post(url).content.decode()
            assert PasswordLink.objects.get(user=user).purpose == purpose
        assert client.post(reverse("admin:auth_user_link", args=[staff["root"].pk])).status_code == 403
        client.force_login(staff["operator"])
        for name in ("key owner", "auditor", "administrator", "root"):
            assert client.post(reverse("admin:auth_user_link", args=[staff[name].pk])).status_code == 403
        assert client.post(reverse("admin:auth_user_link", args=[ann.pk])).status_code == 200

    def test_lists_in_a_few_queries_and_revokes(self, client, staff, django_assert_max_num_queries) -> None:
        links = [user_invite(username=f"user-{number}")[0] for number in range(30)]
        client.force_login(staff["operator"])
        url = reverse("admin:accounts_passwordlink_changelist")
        for address in (url, reverse("admin:auth_user_changelist")):
            with django_assert_max_num_queries(15):
                assert client.get(address).status_code == 200
        action = {"action": "revoke_selected", "_selected_action": [links[0].pk, links[1].pk]}
        assert client.post(url, action).status_code == 200
        assert not PasswordLink.objects.exclude(revoked_at=None).exists()
        assert client.post(url, {**action, "confirmed": "yes"}).status_code == 302
        assert PasswordLink.objects.exclude(revoked_at=None).count() == 2
        assert "user-0" not in client.get(url).content.decode()
        assert "user-0" in client.get(url, {"state": "revoked"}).content.decode()
        link, _ = password_link_create(user=staff["administrator"])
        theirs = {"action": "revoke_selected", "_selected_action": [link.pk], "confirmed": "yes"}
        assert client.post(url, theirs).status_code == 403
        client.force_login(staff["auditor"])
        client.post(url, {**action, "_selected_action": [links[2].pk], "confirmed": "yes"})
        links[2].refresh_from_db()
        assert links[2].revoked_at is None


class TestMail:
    def test_is_sent_where_there_is_a_server_and_an_address(self, client, staff, settings) -> None:
        client.force_login(staff["operator"])
        form = {"username": "ann", "email": "ann@example.org", "role": "key owner", "max_own_keys": "0"}
        url = reverse("admin:accounts_passwordlink_add")
        assert client.post(url, {**form, "valid_days": "7", "sends_mail": "on"}).status_code == 200
        assert mail.outbox == []
        settings.HAS_MAIL_SERVER = True
        page = client.post(url, {**form, "username": "bob", "valid_days": "7", "sends_mail": "on"})
        assert "It was sent to ann@example.org" in page.content.decode()
        assert re.search(r"http://testserver/console/welcome/sl-skippy-\S+/", mail.outbox[0].body)
        settings.EMAIL_BACKEND = "tests.integration.accounts.test_password_links.NoServer"
        page = client.post(url, {**form, "username": "carol", "valid_days": "7", "sends_mail": "on"})
        assert "could not be sent" in page.content.decode()
        assert PasswordLink.objects.filter(user__username="carol").exists()


class NoServer:
    def __init__(self, **_: Any) -> None:
        raise ConnectionRefusedError


class TestCommands:
    def run(self, *arguments: str) -> str:
        out = io.StringIO()
        call_command(*arguments, stdout=out)
        return out.getvalue()

    def test_invite_and_password_link_print_an_absolute_link(self, client, settings) -> None:
        services.team_create(name="the friends")
        role_groups_ensure()
        told = json.loads(
            self.run(
                "invite",
                "ann",
                "--email",
                "a@example.org",
                "--team",
                "the friends",
                "--role",
                "auditor",
                "--json",
            )
        )
        assert told["url"].startswith(settings.CONSOLE_LOCAL_URL + "/console/welcome/sl-skippy-")
        ann = User.objects.get(username="ann")
        assert (ann.email, ann.policy.team.name, ann.is_staff) == ("a@example.org", "the friends", True)
        settings.CONSOLE_PUBLIC_URL = "https://llm.example.org"
        text = self.run("invite", "ann", "--days", "1")
        assert "https://llm.example.org/console/welcome/" in text
        token = re.search(r"(sl-skippy-[\w-]+)/", text)[1]
        client.post(page_of(token), sent())
        with pytest.raises(CommandError, match="has a password"):
            self.run("invite", "ann")
        assert json.loads(self.run("password_link", "ann", "--hours", "2", "--json"))["purpose"] == "reset"

    @pytest.mark.parametrize(
        "arguments",
        [
            ("password_link", "nobody"),
            ("invite", "bad name"),
            ("invite", "x", "--team", "none"),
            ("invite", "x", "--email", "no address"),
        ],
    )
    def test_what_is_wrong_is_one_sentence_and_nobody_is_made(self, arguments) -> None:
        with pytest.raises(CommandError):
            self.run(*arguments)
        assert not User.objects.exists()
