"""Signing in by a provider: what it must say, whom it may send, and what it may do wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from accounts.models import AdministrativeChange
from accounts.password_links import invitation_create, user_invite
from accounts.role_groups import role_groups_ensure
from skippy_site.env import EnvironmentProblem, read_environment
from skippy_site.sign_in_settings import sign_in_settings
from tests.integration.sign_in.conftest import CODE, LOGIN, SECURITY
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, new_key, oidc_provider

pytestmark = pytest.mark.django_db
START = "/console/login/provider/"
ANN = {"sub": "a1", "email": "ann@example.org", "email_verified": True, "preferred_username": "ann"}


@pytest.fixture(scope="module")
def served() -> Iterator[OidcProvider]:
    with oidc_provider() as provider:
        yield provider


@pytest.fixture
def provider(served: OidcProvider, settings: Any, db: None) -> OidcProvider:
    served.person, served.claims, served.userinfo, served.config = dict(ANN), {}, {}, {}
    served.algorithm, served.signs_with, served.status, served.delay_s = "RS256", None, 200, 0.0
    configure(settings, served)
    role_groups_ensure()
    return served


def configure(settings: Any, served: OidcProvider, **more: str) -> None:
    environment = read_environment(
        {
            "SKIPPY_OIDC_ISSUER": served.url,
            "SKIPPY_OIDC_CLIENT_ID": CLIENT_ID,
            "SKIPPY_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "SKIPPY_OIDC_NAME": "Our provider",
            **{f"SKIPPY_{name.upper()}": value for name, value in more.items()},
        }
    )
    for name, value in sign_in_settings(environment).items():
        setattr(settings, name, value)


def come(provider: OidcProvider, client: Client | None = None, next: str = "") -> Any:
    """The whole way of a browser; the answer to its return."""
    client = client or Client()
    return client.get(provider.sign_in(sent_to(client, {"next": next} if next else {})))


def sent_to(client: Client, form: dict[str, str] | None = None, query: str = "") -> str:
    """Where the page leads."""
    sent = client.post(START + query, form or {})
    assert sent.status_code == 200, sent.text
    url: str = sent.context["url"]
    return url


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


class TestWhoComesIn:
    def test_nobody_who_is_not_here_unless_that_is_said(self, provider, ann, settings) -> None:
        client = Client()
        answer = come(provider, client)
        assert (answer.status_code, "no account here yet" in answer.text) == (403, True)
        assert not is_in(client)
        # With the same name and address as ann, who was not asked.
        assert not SocialAccount.objects.exists()
        configure(settings, provider, oidc_creates_users="yes")
        assert "name is taken" in come(provider, client).text
        assert User.objects.count() == 1

    def test_new_ones_as_key_owners(self, provider, settings) -> None:
        configure(settings, provider, oidc_creates_users="yes")
        client = Client()
        assert come(provider, client, next="/console/start/").url == "/console/start/"
        user = User.objects.get()
        assert (user.username, user.email, user.is_staff, user.has_usable_password()) == (
            "ann",
            "ann@example.org",
            False,
            False,
        )
        assert [group.name for group in user.groups.all()] == ["key owner"]
        assert client.get("/console/start/").status_code == 200
        assert "Our provider" in client.get("/console/account/").text
        # Again, under another name and address there: the same user, by the subject alone.
        provider.person = {"sub": "a1", "email": "new@example.org", "preferred_username": "anna"}
        again = Client()
        assert come(provider, again).status_code == 302
        assert (User.objects.count(), again.session["_auth_user_id"]) == (1, str(user.pk))
        # Another one, with her old name: somebody else.
        provider.person = {**ANN, "sub": "b2"}
        assert "name is taken" in come(provider).text
        row = AdministrativeChange.objects.filter(subject_kind="user", action="created").get()
        assert row.actor_name == "provider"
        ways = AdministrativeChange.objects.filter(subject_kind="sign_in").first().changes["by"]
        assert ways == [None, "provider"]
        assert SocialAccount.objects.get().extra_data == {}

    def test_by_a_verified_address_where_that_is_allowed(self, provider, ann, settings) -> None:
        configure(settings, provider, oidc_links_by="email")
        provider.person = {**ANN, "email": "ANN@example.org", "email_verified": False}
        assert come(provider).status_code == 403
        provider.person["email_verified"] = True
        client = Client()
        assert come(provider, client).status_code == 302
        assert client.session["_auth_user_id"] == str(ann.pk)
        assert AdministrativeChange.objects.filter(subject_kind="provider_link").count() == 1
        # A second person with that address does not become her too.
        provider.person = {**ANN, "sub": "b2"}
        assert "linked to somebody else" in come(provider).text
        User.objects.create_user("ann2", email="Two@example.org")
        User.objects.create_user("ann3", email="two@example.org")
        provider.person = {**ANN, "sub": "c3", "email": "two@example.org"}
        assert "Several users" in come(provider).text

    def test_by_name_where_that_is_allowed_but_never_as_superuser(
        self, provider, ann, root, settings
    ) -> None:
        configure(settings, provider, oidc_links_by="username")
        provider.person = {"sub": "a1", "preferred_username": "root"}
        assert "Superusers" in come(provider).text
        provider.person = {"sub": "a1", "preferred_username": "ann"}
        client = Client()
        assert come(provider, client).status_code == 302
        assert client.session["_auth_user_id"] == str(ann.pk)
        User.objects.filter(pk=ann.pk).update(is_active=False)
        assert "switched off" in come(provider).text
        User.objects.filter(pk=ann.pk).update(is_active=True, is_superuser=True)
        assert "Superusers" in come(provider).text

    def test_domains(self, provider, settings) -> None:
        configure(settings, provider, oidc_creates_users="yes", oidc_domains="example.com, @Example.ORG")
        for email, verified in (
            ("x@sub.example.org", True),
            ("x@example.org.evil", True),
            ("x@example.org", False),
            (None, True),
            (7, True),
        ):
            provider.person = {"sub": "x", "email": email, "email_verified": verified}
            assert come(provider).status_code in (403, 502), email
        provider.person = dict(ANN)
        assert come(provider).status_code == 302

    @pytest.mark.parametrize(
        "case",
        [
            ({"email_verified": True}, {"email": "ann@example.org"}, False),
            ({"email": "ann@example.org"}, {"email_verified": True}, False),
            ({"email": "ann@example.org"}, {"email": "x@example.org", "email_verified": True}, False),
            ({"email": "x@example.org", "email_verified": True}, {"email": "ann@example.org"}, False),
            (
                {"email": "ann@example.org", "email_verified": False},
                {"email": "ann@example.org", "email_verified": True},
                False,
            ),
            ({}, {"email": "ann@example.org", "email_verified": True}, True),
            ({"email_verified": None}, {"email": "ann@example.org", "email_verified": True}, True),
            (
                {"email": "ann@example.org", "email_verified": True},
                {"email": "x@example.org", "email_verified": False},
                True,
            ),
        ],
    )
    def test_an_address_is_verified_by_who_names_it(self, provider, ann, settings, case) -> None:
        """Or an address of one's choice gets the word that was given for another one."""
        signed, told, is_ann = case
        configure(settings, provider, oidc_links_by="email")
        provider.person, provider.userinfo = {"sub": "a1", **signed}, told
        client = Client()
        assert come(provider, client).status_code == (302 if is_ann else 403)
        assert is_in(client) == is_ann

    def test_linked_anew_once_the_old_link_is_gone(self, provider, ann, settings, capsys) -> None:
        configure(settings, provider, oidc_links_by="email")
        before = Client()
        come(provider, before)
        provider.person = {**ANN, "sub": "moved"}
        assert "linked to somebody else" in come(provider).text
        call_command("provider_link_remove", "ann")
        assert before.get("/console/").status_code == 302
        after = Client()
        assert come(provider, after).status_code == 302
        assert after.session["_auth_user_id"] == str(ann.pk)
        provider.person = dict(ANN)
        assert "linked to somebody else" in come(provider).text
        links = AdministrativeChange.objects.filter(subject_kind="provider_link", subject_user_id=ann.pk)
        assert [row.action for row in links.order_by("pk")] == ["created", "deleted", "created"]
        assert links.get(action="deleted").door == "command"
        User.objects.create_user("bob")
        call_command("provider_link_remove", "bob")
        assert capsys.readouterr().out.splitlines()[1:] == ["bob has no link to a provider."]

    def test_roles_follow_groups(self, provider, settings) -> None:
        roles = '{"admins": "administrator", "readers": "auditor"}'
        configure(settings, provider, oidc_creates_users="yes", oidc_roles=roles, oidc_groups_claim="g")
        for groups, role, is_staff in (
            (["readers", "admins", 7], "administrator", True),
            ("readers", "auditor", True),
            ([], "key owner", False),
            (None, "key owner", False),
        ):
            provider.userinfo = {"g": groups}
            assert come(provider).status_code == 302
            user = User.objects.get()
            assert [group.name for group in user.groups.all()] == [role]
            assert (user.is_staff, user.is_superuser) == (is_staff, False)

    def test_a_second_factor_of_ours_unless_the_provider_s_counts(
        self, provider, ann, settings, set_up
    ) -> None:
        set_up("ann", Client())
        configure(settings, provider, oidc_links_by="email", require_mfa="all")
        client = Client()
        assert come(provider, client).url == CODE
        assert not is_in(client)
        configure(settings, provider, oidc_links_by="email", require_mfa="all", oidc_counts_as_mfa="yes")
        client = Client()
        assert come(provider, client).url == "/console/"
        assert client.get("/console/start/").status_code == 200

    def test_who_has_no_password_can_set_one_up(self, provider, settings) -> None:
        configure(settings, provider, oidc_creates_users="yes", require_mfa="all")
        client = Client()
        come(provider, client)
        assert client.get("/console/start/").url == SECURITY
        assert client.get(f"{SECURITY}set-up/").status_code == 200
        settings.SECOND_FACTOR_RULE = "off"
        assert client.get("/console/account/password/").status_code == 403
        session = client.session
        session["account_authentication_methods"][0]["at"] -= 3600
        session.save()
        assert client.get(f"{SECURITY}set-up/").status_code == 403

    def test_one_of_another_provider_who_has_the_same_subject_is_another_one(
        self, provider, settings
    ) -> None:
        configure(settings, provider, oidc_creates_users="yes")
        come(provider)
        other = "http://127.0.0.1:1/other"
        configure(settings, provider, oidc_creates_users="yes", oidc_issuer=other)
        settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = provider.url
        provider.config, provider.claims = {"issuer": other}, {"iss": other}
        client = Client()
        assert "name is taken" in come(provider, client).text
        assert not is_in(client)
        provider.person = {**ANN, "preferred_username": "ann2", "email": ""}
        assert come(provider).status_code == 302
        assert set(SocialAccount.objects.values_list("user__username", flat=True)) == {"ann", "ann2"}

    def test_who_comes_so_has_no_open_invitation_left(self, provider, settings) -> None:
        """Or who made it could still come as him."""
        _, minted = user_invite(username="ann", email="ann@example.org")
        page = f"/console/welcome/{minted.plaintext}/"
        assert Client().get(page).status_code == 200
        configure(settings, provider, oidc_links_by="email")
        client = Client()
        come(provider, client)
        assert is_in(client)
        assert Client().get(page).status_code == 404
        # One that is made for him later is not in the way of the provider, nor the other way round.
        _, minted = invitation_create(user=User.objects.get())
        come(provider)
        assert Client().get(f"/console/welcome/{minted.plaintext}/").status_code == 200

    def test_a_long_subject_and_what_no_column_holds(self, provider, settings) -> None:
        configure(settings, provider, oidc_creates_users="yes")
        provider.person = {**ANN, "sub": "s" * 255}
        assert come(provider).status_code == come(provider).status_code == 302
        assert User.objects.count() == 1
        for person in ({"name": "a\0b"}, {"preferred_username": "a\0b"}, {"sub": ""}):
            provider.person = {**ANN, "sub": "other", "preferred_username": "bob", **person}
            assert come(provider).status_code == 502, person
        assert User.objects.count() == 1

    def test_a_factor_of_the_providers_counts_as_long_as_that_is_said(self, provider, ann, settings) -> None:
        configure(settings, provider, oidc_links_by="email", require_mfa="all", oidc_counts_as_mfa="yes")
        client = Client()
        come(provider, client)
        assert client.get("/console/start/").status_code == 200
        configure(settings, provider, oidc_links_by="email", require_mfa="all")
        assert client.get("/console/start/").url == SECURITY


class TestWhatItSays:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"claims": {"iss": "https://other.example"}},
            {"claims": {"aud": "somebody-else"}},
            {"claims": {"aud": [CLIENT_ID, "other"]}},
            {"claims": {"exp": 1_700_000_000}},
            {"claims": {"nonce": "of another request"}},
            {"claims": {"nonce": None}},
            {"claims": {"iat": None}},
            {"claims": {"sub": ""}},
            {"signs_with": "new"},
            {"signs_with": "x" * 64, "algorithm": "HS256"},
            {"signs_with": "none", "algorithm": "none"},
            {"userinfo": {"sub": "somebody else"}},
            {"config": {"issuer": "https://other.example"}},
            {"config": {"jwks_uri": "http://127.0.0.1:9/keys"}},
            {"config": {"token_endpoint": None}},
            {"status": 500},
        ],
        ids=str,
    )
    def test_is_refused_where_it_is_not_right(self, provider, settings, wrong, caplog) -> None:
        configure(settings, provider, oidc_creates_users="yes")
        for name, value in wrong.items():
            made = {"new": new_key, "none": str}.get(value) if name == "signs_with" else None
            setattr(provider, name, value if made is None else made())
        client = Client()
        with caplog.at_level(logging.DEBUG):
            sent = client.post(START)
            is_on_its_way = sent.status_code == 200
            answer = client.get(provider.sign_in(sent.context["url"])) if is_on_its_way else sent
        assert (answer.status_code, "did not work" in answer.text) == (502, True)
        assert not is_in(client)
        assert not User.objects.exists()
        assert CLIENT_SECRET not in caplog.text
        assert "opaque" not in caplog.text

    def test_state_is_of_this_browser_and_good_once(self, provider, settings) -> None:
        configure(settings, provider, oidc_creates_users="yes")
        client, other = Client(), Client()
        back = provider.sign_in(sent_to(client))
        assert other.get(back).status_code == 401
        assert not is_in(other)
        assert client.get(back).status_code == 302
        client.post("/console/logout/")
        assert client.get(back).status_code == 401
        assert client.get("/console/login/provider/back/").status_code == 401
        asked = provider.asked[-1]
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["nonce"]) > 30
        assert set(asked["scope"].split()) == {"openid", "profile", "email"}

    def test_nothing_of_the_link_gets_there(self, provider) -> None:
        query = "?scope=all&auth_params=prompt%3Dnone&process=connect&next=//evil.example"
        url = sent_to(Client(), query=query)
        assert "prompt" not in url
        assert "all" not in url.partition("scope=")[2].partition("&")[0]
        assert Client().get(START).status_code == 405

    def test_who_goes_back_is_told(self, provider) -> None:
        client = Client()
        back = provider.sign_in(sent_to(client))
        cancelled = back.replace("code=", "error=access_denied&x=")
        assert "went back" in client.get(cancelled).text

    def test_away_or_slow_is_a_page(self, provider, settings, monkeypatch) -> None:
        settings.SOCIALACCOUNT_REQUESTS_TIMEOUT = 0.2
        client = Client()
        back = provider.sign_in(sent_to(client))
        provider.delay_s = 1.0
        assert client.get(back).status_code == 502
        settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = (
            "http://127.0.0.1:9"
        )
        answer = Client().post(START)
        assert (answer.status_code, "does not answer" in answer.text) == (502, True)


def test_without_a_provider_there_is_no_such_page(client, db) -> None:
    assert "Log in with" not in client.get(LOGIN).text
    assert client.post(START).status_code == 404
    assert client.get("/console/login/provider/back/").status_code == 404


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"OIDC_ISSUER": "ftp://x"}, "SKIPPY_OIDC_ISSUER"),
        ({"OIDC_ISSUER": "http://login.example.com", "OIDC_CLIENT_ID": "x"}, "needs https"),
        ({"OIDC_ISSUER": "https://login.example.com"}, "SKIPPY_OIDC_CLIENT_ID"),
        ({"OIDC_ROLES": "{"}, "SKIPPY_OIDC_ROLES"),
        ({"OIDC_ROLES": '{"a": "superuser"}'}, "key owner"),
        (
            {
                "OIDC_ISSUER": "https://x.example",
                "OIDC_CLIENT_ID": "x",
                "OIDC_CLIENT_SECRET_FILE": "/nowhere",
            },
            "SKIPPY_OIDC_CLIENT_SECRET_FILE",
        ),
        ({"REQUIRE_MFA": "everybody"}, "SKIPPY_REQUIRE_MFA"),
    ],
)
def test_settings_that_cannot_be_used(given, told) -> None:
    with pytest.raises(EnvironmentProblem, match=told):
        read_environment({f"SKIPPY_{name}": value for name, value in given.items()})
