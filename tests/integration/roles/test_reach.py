"""Every URL that there is, tried as each role and as nobody. One that is in no table fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import get_resolver, resolve, reverse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_log")]

LETTERS = {"A": "administrator", "O": "operator", "U": "auditor", "K": "key owner", "-": "nobody"}
SIGNED_IN = "AOUK"
STAFF = "AOU"

# For each model of the admin: who looks, adds, deletes.
MODELS = {
    "accounts_administrativechange": (STAFF, "", ""),
    "accounts_apikey": (STAFF, "AO", "AO"),
    "accounts_passwordlink": (STAFF, "AO", ""),
    "accounts_team": (STAFF, "AO", "AO"),
    "auth_user": (STAFF, "AO", "A"),
    "auth_group": (STAFF, "A", "A"),
    "hooks_hookpolicy": (STAFF, "A", "A"),
    "hooks_webhook": (STAFF, "A", "A"),
    "inference_alert": (STAFF, "", ""),
    "inference_modelrow": (STAFF, "AO", "AO"),
    "inference_modelprice": (STAFF, "AO", "AO"),
}
# Who changes is who adds, but for:
CHANGES = {"accounts_passwordlink": ""}
# Other paths: who reads them by GET. Things in the paths are another's.
PAGES = {
    "admin/": STAFF,
    "admin/search/": STAFF,
    "admin/login/": "",  # staff is led on, others to the one door; who may not come in is told so
    "admin/logout/": "",
    "admin/password_change/": "",
    "admin/password_change/done/": STAFF,
    "admin/autocomplete/": "",
    "admin/jsi18n/": STAFF,
    "admin/r/<path:content_type_id>/<path:object_id>/": "",
    "admin/auth/user/<id>/password/": "A",
    "admin/auth/user/<path:object_id>/link/": "AO",
    "admin/accounts/apikey/<path:object_id>/revoke/": "AO",
    "admin/accounts/apikey/<path:object_id>/rotate/": "AO",
    "admin/hooks/hookpolicy/try/": STAFF,
    "admin/hooks/hookpolicy/replay/": "",  # asked for from a policy's form
    "admin/hooks/hookpolicy/replays/": STAFF,
    "admin/hooks/hookpolicy/replays/<int:replay_id>/": STAFF,
    "admin/^(?P<app_label>accounts|auth|hooks|inference)/$": STAFF,
    "admin/(?P<url>.*)$": "",
    "console/": SIGNED_IN,
    "console/usage.csv": SIGNED_IN,
    "console/usage/<slug:kind>/": SIGNED_IN,
    "console/usage/<slug:kind>.csv": SIGNED_IN,
    "console/requests/": SIGNED_IN,
    "console/requests.csv": SIGNED_IN,
    "console/requests/<uuid:record_id>/": STAFF,
    "console/live/": STAFF,
    "console/live/<uuid:record_id>/cancel": "",
    "console/decisions/": STAFF,
    "console/keys/": SIGNED_IN,
    "console/keys/<int:key_id>/revoke/": "",
    "console/keys/<int:key_id>/replace/": "",
    "console/maintenance/": STAFF,
    "console/playground/": SIGNED_IN,
    "console/playground/pass/": "",
    "console/start/": SIGNED_IN,
    "console/welcome/<str:token>/": "",  # this token is nobody's
    "console/login/": "-",
    "console/login/code/": "",
    "console/login/provider/": "",
    "console/login/provider/back/": "",
    "console/account/": SIGNED_IN,
    "console/account/again/": SIGNED_IN,
    "console/account/security/": SIGNED_IN,
    # Where the password is asked for again before anything is shown.
    "console/account/again/code/": "",
    "console/account/password/": "",
    "console/account/email/": "",
    "console/account/security/set-up/": "",
    "console/account/security/remove/": "",
    "console/account/security/codes/": "",
    "console/account/security/codes/new/": "",
    "console/logout/": "",
    "favicon.ico": "",
    "": "",
}
# Who may POST to them, and does something (200, or 302 to somewhere else than a login).
POSTS = {
    "admin/": STAFF,
    "admin/search/": STAFF,
    "admin/logout/": SIGNED_IN + "-",
    "admin/password_change/": SIGNED_IN + "-",  # leads elsewhere
    "admin/auth/user/<id>/password/": "A",
    "admin/auth/user/<path:object_id>/link/": "AO",
    "admin/accounts/apikey/<path:object_id>/revoke/": "AO",
    "admin/accounts/apikey/<path:object_id>/rotate/": "AO",
    "admin/hooks/hookpolicy/try/": STAFF,
    "admin/^(?P<app_label>accounts|auth|hooks|inference)/$": STAFF,
    "admin/hooks/hookpolicy/replays/<int:replay_id>/": "A",
    "console/keys/": SIGNED_IN,
    "console/account/password/": SIGNED_IN,
    "console/account/email/": SIGNED_IN,
    "console/account/again/": SIGNED_IN,
    "console/account/again/code/": SIGNED_IN,
    "console/account/security/set-up/": SIGNED_IN,
    "console/account/security/remove/": SIGNED_IN,
    "console/account/security/codes/": SIGNED_IN,
    "console/account/security/codes/new/": SIGNED_IN,
    "console/maintenance/": "AO",
    "console/logout/": SIGNED_IN + "-",
    "favicon.ico": SIGNED_IN + "-",  # leads elsewhere
    "": SIGNED_IN + "-",
}
# Of the management API, signed in by session: who reads, and who writes by each method that there is.
API = {
    "schema": (SIGNED_IN + "-", ""),
    "records": (SIGNED_IN, ""),
    "requests": (SIGNED_IN, ""),
    "requests/record_id/cancel": ("", ""),  # nothing runs: 404 for everybody
    "usage": (SIGNED_IN, ""),
    "maintenance": (STAFF, "AO"),
    "models": ("AO", "AO"),
    "models/row_id": ("AO", "AO"),
    "models/row_id/status": ("AO", ""),
    "models/row_id/load": ("", "AO"),
    "models/row_id/unload": ("", "AO"),
    "prices": ("AO", "AO"),
    "prices/changes": ("AO", ""),
    "prices/price_id": ("AO", "AO"),
    "hook-policies": ("A", "A"),
    "hook-policies/reorder": ("", "A"),
    "hook-policies/try": ("", "A"),
    "hook-policies/examples": ("", "A"),
    "hook-policies/changes": ("A", ""),
    "hook-policies/policy_id": ("A", "A"),
    "hook-policies/policy_id/changes": ("A", ""),
    "hook-policies/policy_id/replays": ("A", "A"),
    "hook-policies/policy_id/replays/replay_id": ("A", ""),
    "hook-policies/policy_id/replays/replay_id/cancel": ("", "A"),
    "hook-policies/policy_id/replays/replay_id/resume": ("", "A"),
    "webhooks": ("A", "A"),
    "webhooks/changes": ("A", ""),
    "webhooks/webhook_id": ("A", "A"),
    "webhooks/webhook_id/changes": ("A", ""),
    "me": (SIGNED_IN, ""),
    "users": ("AO", "AO"),
    "users/user_id": ("AO", "AO"),
    "users/user_id/limits": ("AO", ""),
    "users/user_id/export": ("AO", ""),
    "users/user_id/invitation": ("AO", "AO"),
    "users/user_id/password-link": ("AO", "AO"),
    "password-links": ("AO", ""),
    "users/user_id/erase": ("", "AO"),
    "teams": ("AO", "AO"),
    "teams/team_id": ("AO", "AO"),
    "teams/team_id/limits": ("AO", ""),
    "keys": (SIGNED_IN, SIGNED_IN),  # his own
    "keys/key_id": ("AO", "AO"),  # another's is not there
    "keys/key_id/limits": ("AO", ""),
    "keys/key_id/rotate": ("", "AO"),
    "changes": ("AO", ""),
}
# Methods of which that is not true.
OTHERWISE = {("users/user_id/password-link", "POST"): "A"}
# Bodies with which an operation comes as far as it can.
BODIES: dict[tuple[str, str], Any] = {
    ("users", "POST"): {"username": "fresh"},
    ("users/user_id", "PATCH"): {"email": "x@example.org"},
    ("users/user_id/erase", "POST"): {"confirm": "somebody-else"},
    ("teams", "POST"): {"name": "fresh"},
    ("teams/team_id", "PATCH"): {"name": "renamed"},
    ("keys", "POST"): {"name": "fresh"},
    ("keys/key_id", "PATCH"): {"name": "renamed"},
    ("prices/price_id", "PATCH"): {"input_price": "2"},
    ("hook-policies/policy_id", "PATCH"): {"name": "renamed"},
}
REFUSED = {401, 403, 404, 405}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def paths(patterns: Any = None, before: str = "") -> Iterator[tuple[str, str]]:
    """Every path, as written, with its name."""
    for one in get_resolver().url_patterns if patterns is None else patterns:
        written = before + str(one.pattern)
        if hasattr(one, "url_patterns"):
            yield from paths(one.url_patterns, written)
        else:
            yield written, one.name or ""


def api_name(written: str) -> str:
    return (
        re.sub(r"\(\?P<(\w+)>.*?\)(?=/)", r"\1", written.removeprefix("api/").removeprefix("^api/"))
        .strip("^$?/")
        .replace("/?", "")
    )


def is_of_model(written: str) -> bool:
    found = re.match(r"admin/(\w+)/(\w+)/(add/|<path:object_id>/((history|delete|change)/)?)?$", written)
    return found is not None and f"{found[1]}_{found[2]}" in MODELS


def concrete(written: str, things: dict[str, Any]) -> str:
    """The path with the ids of what there is."""
    parts = written.split("/")
    model = "_".join(parts[1:3]) if parts[0] == "admin" else ""
    path = written.replace("<path:object_id>", str(things.get(model, 1))).replace(
        "<path:content_type_id>", "1"
    )
    path = path.replace("(?P<app_label>accounts|auth|hooks|inference)", "accounts").strip("^$")
    return (
        re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(things[found[1]]), path)
        .replace("^", "")
        .replace("$", "")
    )


def who_reads(written: str, name: str) -> str:
    if written.startswith(("api/", "^api/")):
        return API[api_name(written)][0]
    if is_of_model(written):
        model, _, verb = name.rpartition("_")
        looks, adds, deletes = MODELS[model or "_".join(written.split("/")[1:3])]
        if not verb:
            return ""  # leads to the page of the thing
        return {"add": adds, "delete": deletes}.get(verb, looks)
    return PAGES[written]


def api_path(written: str, things: dict[str, Any]) -> str:
    name = api_name(written)
    return "/api/" + "/".join(str(things.get(part, part)) for part in name.split("/"))


def address(written: str, things: dict[str, Any]) -> str:
    if written.startswith(("api/", "^api/")):
        return api_path(written, things)
    if "(?P<url>" in written:
        return "/admin/nothing-of-the-kind/"
    return "/" + concrete(written, things)


def who_posts(written: str, name: str) -> str:
    if not is_of_model(written):
        return POSTS.get(written, "")
    model, _, verb = name.rpartition("_")
    looks, adds, deletes = MODELS[model or "_".join(written.split("/")[1:3])]
    verbs = {"add": adds, "change": CHANGES.get(model, adds), "delete": deletes}
    return verbs.get(verb, looks)


def is_refused(response: Any) -> bool:
    """Also sent to a login, or away from a page that is none."""
    is_to_login = response.status_code == 302 and "/login/" in response["Location"]
    return is_to_login or response.status_code in REFUSED


def asked(client: Client, method: str, url: str, body: Any = None) -> Any:
    """What a request is answered, of which nothing stays."""
    with transaction.atomic():
        if method == "POST" and not url.startswith("/api/"):
            response = client.post(url, {"confirmed": "", "action": "", **(body or {})})
        else:
            sent = json.dumps({} if body is None else body)
            response = client.generic(method, url, sent, content_type="application/json")
        transaction.set_rollback(True)
    return response


@pytest.fixture(autouse=True)
def signed_in_again(people: dict[str, Client]) -> Callable[[], None]:
    """Who posts to a logout is out: his next request is with the session that he had."""
    cookies = {role: dict(client.cookies) for role, client in people.items()}

    def again() -> None:
        for role, client in people.items():
            client.cookies.clear()
            client.cookies.update(cookies[role])

    return again


@pytest.mark.parametrize("letter", LETTERS)
def test_every_path_is_read_by_whom_the_tables_say(people, things, letter) -> None:
    role, wrong = LETTERS[letter], []
    for written, name in paths():
        readers = who_reads(written, name)
        response = people[role].get(address(written, things))
        is_right = response.status_code == 200 if letter in readers else is_refused(response)
        if not is_right and not (letter not in readers and response.status_code == 302):
            wrong.append((written, role, response.status_code))
    assert not wrong


def test_the_tables_have_nothing_that_is_not_there() -> None:
    written = [path for path, _ in paths()]
    assert set(PAGES) <= set(written)
    assert set(POSTS) <= set(PAGES)
    assert set(API) == {api_name(path) for path in written if path.startswith(("api/", "^api/"))}
    assert {name for name, _ in (*OTHERWISE, *BODIES)} <= set(API)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_page_is_posted_to_by_whom_the_tables_say(people, things, signed_in_again, letter) -> None:
    role, wrong = LETTERS[letter], []
    for written, name in paths():
        if written.startswith(("api/", "^api/")) or "/login/" in written:
            continue  # signing in is for everybody to try
        posters = who_posts(written, name)
        response = asked(people[role], "POST", address(written, things))
        signed_in_again()
        if written.endswith("logout/") and letter in posters:
            assert response.status_code in (200, 302)
        elif is_refused(response) == (letter in posters):
            wrong.append((written, role, response.status_code, posters))
    assert not wrong


def test_other_methods_of_pages_open_no_more_than_get_and_change_nothing(people, things) -> None:
    """Django takes them for GET: who may not read is refused, who may everything changes nothing."""
    before, wrong = picture(), []
    for written, name in paths():
        if written.startswith(("api/", "^api/")) or name in ("logout", "login"):
            continue
        readers, url = who_reads(written, name), address(written, things)
        for method in ("PUT", "PATCH", "DELETE"):
            for letter, role in LETTERS.items():
                is_dear = letter in "OU" or (letter in readers and (letter, method) != ("A", "DELETE"))
                if is_dear:
                    continue
                response = people[role].generic(method, url)
                if letter not in readers and not (is_refused(response) or response.status_code == 302):
                    wrong.append((written, method, role, response.status_code))
    assert not wrong
    assert picture() == before


@pytest.mark.parametrize("method", METHODS[1:])
def test_every_operation_is_open_to_whom_the_tables_say(people, things, method) -> None:
    """Allowed is what does something, or finds fault with the body; refused is 401, 403 or 404. A method
    that a path has not is 405."""
    wrong = []
    for written, _ in paths():
        if not written.startswith(("api/", "^api/")):
            continue
        name, url = api_name(written), address(written, things)
        view = resolve(url).func
        is_there = hasattr(getattr(view, "cls", None), method.lower())
        for letter, role in LETTERS.items():
            if not is_there and letter not in "K-":
                continue
            response = asked(people[role], method, url, BODIES.get((name, method)))
            may = letter in OTHERWISE.get((name, method), API[name][1])
            if not is_there:
                is_right = response.status_code in ({401, 403, 405} if letter == "-" else {403, 405})
            elif may:
                is_right = response.status_code < 300 or response.status_code in (400, 409, 412)
            else:
                is_right = response.status_code in (401, 403, 404)
            if not is_right:
                wrong.append((written, role, response.status_code, response.content[:100]))
    assert not wrong


def picture() -> dict[str, list[Any]]:
    """All rows that there are, without sessions."""
    kept = [model for model in apps.get_models() if model._meta.app_label != "sessions"]
    return {
        model._meta.label: list(model._base_manager.order_by("pk").values_list())
        for model in kept
        if model._meta.label != "accounts.AdministrativeChange"
    }


@pytest.mark.parametrize("role", ["auditor", "key owner", "nobody"])
def test_who_may_change_nothing_changes_nothing(people, things, role) -> None:
    before = picture()
    for written, name in paths():
        if name in ("logout", "login", "account_logout", "account_login"):
            continue
        url = address(written, things)
        form = {"post": "yes", "confirmed": "1", "action": "delete_selected", "_selected_action": "1"}
        status = people[role].post(url, form).status_code
        # A trial is asked with POST and writes nothing.
        is_own = name in (
            "password_change",
            "jsi18n",
            "search",
            "index",
            "app_list",
            "password_change_done",
            "account_reauthenticate",
            "hooks_hookpolicy_try",
        )
        assert status in REFUSED | {302, 400, 415} or is_own or name.endswith(("_changelist", "_history")), (
            url,
            status,
        )
    assert picture() == before


class TestAnOperator:
    def test_makes_nobody_more(self, people, things) -> None:
        operator = User.objects.get(username="operator")
        page = reverse("admin:auth_user_change", args=[things["auth_user"]])
        sent = {
            "username": "renamed",
            "email": "new@example.org",
            "is_active": "on",
            "date_joined_0": "2026-01-01",
            "date_joined_1": "12:00:00",
            "is_staff": "on",
            "is_superuser": "on",
            "groups": [operator.groups.get().pk],
            "policy-TOTAL_FORMS": "0",
            "policy-INITIAL_FORMS": "0",
        }
        answer = people["operator"].post(page, sent)
        assert answer.status_code == 302, answer.context["errors"]
        changed = User.objects.get(pk=things["auth_user"])
        assert (changed.username, changed.email) == ("somebody-else", "new@example.org")
        assert not (changed.is_staff or changed.is_superuser or changed.groups.exists())

    @pytest.mark.parametrize("name", ["administrator", "operator", "auditor"])
    def test_changes_nobody_who_is_staff(self, people, things, name) -> None:
        user = User.objects.get(username=name)
        for page in ("change", "delete"):
            url = reverse(f"admin:auth_user_{page}", args=[user.pk])
            assert people["operator"].post(url, {"email": "x@example.org"}).status_code == 403

    @pytest.mark.parametrize("name", ["administrator", "somebody-else"])
    def test_sets_no_password(self, people, things, name) -> None:
        user = User.objects.get(username=name)
        url = reverse("admin:auth_user_password_change", args=[user.pk])
        sent = {"password1": "anything at all", "password2": "anything at all"}
        assert people["operator"].post(url, sent).status_code == 403
        assert User.objects.get(pk=user.pk).password == user.password

    @pytest.mark.parametrize("scope", ["policies"])
    def test_gives_no_key_what_he_has_not(self, people, things, scope) -> None:
        from accounts.models import ApiKey

        url = reverse("admin:accounts_apikey_add")
        sent = {"user": things["user_id"], "name": "mine", "submission_id": "1"}
        refused = people["operator"].post(url, {**sent, "scopes": [scope]})
        assert (refused.status_code, ApiKey.objects.filter(name="mine").exists()) == (200, False)
        assert people["operator"].post(url, {**sent, "scopes": ["inference"]}).status_code == 200
        assert ApiKey.objects.filter(name="mine").exists()

    def test_ends_a_key_that_may_more_but_has_no_new_one_of_it(self, people, things) -> None:
        from accounts import services
        from accounts.scopes import Scope

        owner = User.objects.get(pk=things["user_id"])
        key, _ = services.api_key_create(user=owner, name="rules", scopes=frozenset({Scope.POLICIES}))
        rotate = reverse("admin:accounts_apikey_rotate", args=[key.pk])
        assert people["operator"].post(rotate, {"grace": "0"}).status_code == 403
        change = reverse("admin:accounts_apikey_change", args=[key.pk])
        assert people["operator"].post(change, {"name": "x"}).status_code == 403
        revoke = reverse("admin:accounts_apikey_revoke", args=[key.pk])
        assert people["operator"].post(revoke).status_code == 302
        key.refresh_from_db()
        assert key.revoked_at is not None


def test_an_administrator_who_is_no_superuser_changes_none(people) -> None:
    root = User.objects.create_superuser("root", password="x")
    for page in ("change", "password_change", "delete"):
        url = reverse(f"admin:auth_user_{page}", args=[root.pk])
        sent = {"password1": "anything at all", "password2": "anything at all", "username": "root"}
        assert people["administrator"].post(url, sent).status_code == 403
    assert User.objects.get(pk=root.pk).password == root.password


class TestTextOfOthers:
    """Whoever holds a key reads what is kept under it, and no history tells of it."""

    @pytest.fixture
    def keeping(self, things) -> Any:
        from accounts import services
        from accounts.contracts import Policy

        owner = User.objects.get(pk=things["user_id"])
        return services.api_key_create(user=owner, name="keeps", policy=Policy(keeps_text=True))[0]

    @pytest.mark.parametrize(("role", "may"), [("administrator", True), ("operator", False)])
    def test_a_key_that_keeps_it_is_made_and_replaced_by_who_may_read_it(
        self, people, things, keeping, role, may
    ) -> None:
        from accounts.models import ApiKey

        made = ApiKey.objects.filter(name="made", keeps_text=True)
        add, sent = reverse("admin:accounts_apikey_add"), {"name": "made", "scopes": ["inference"]}
        form = {**sent, "user": things["user_id"], "keeps_text": "on"}
        people[role].post(add, {**form, "submission_id": "1"})
        assert made.exists() == may
        body = {"name": "made", "user_id": things["user_id"], "keeps_text": True}
        answer = people[role].post("/api/keys", body, content_type="application/json")
        assert answer.status_code == (201 if may else 403)
        rotation = reverse("admin:accounts_apikey_rotate", args=[keeping.pk])
        assert people[role].get(rotation).status_code == (200 if may else 403)
        answer = people[role].post(f"/api/keys/{keeping.pk}/rotate", {}, content_type="application/json")
        assert answer.status_code == (201 if may else 403)
        other, _ = self.other(things)
        answer = people[role].patch(
            f"/api/keys/{other.pk}", {"keeps_text": True}, content_type="application/json"
        )
        assert answer.status_code == (200 if may else 403)
        people[role].post(
            reverse("admin:accounts_apikey_change", args=[other.pk]), {**sent, "keeps_text": "on"}
        )
        other.refresh_from_db()
        assert other.keeps_text == may

    def other(self, things: dict[str, Any]) -> Any:
        from accounts import services

        return services.api_key_create(user=User.objects.get(pk=things["user_id"]), name="other")

    def test_his_own_is_anybodys_and_another_is_renamed_or_told_to_keep_none(
        self, people, things, keeping
    ) -> None:
        body = {"name": "own", "keeps_text": True}
        operator = people["operator"]
        assert operator.post("/api/keys", body, content_type="application/json").status_code == 201
        for change in ({"name": "renamed"}, {"keeps_text": False}):
            answer = operator.patch(f"/api/keys/{keeping.pk}", change, content_type="application/json")
            assert answer.status_code == 200
