"""Every URL that there is, tried as each role and as nobody. One that is in no table fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.urls import get_resolver, reverse

pytestmark = pytest.mark.django_db

LETTERS = {"A": "administrator", "O": "operator", "U": "auditor", "K": "key owner", "-": "nobody"}
SIGNED_IN = "AOUK"
STAFF = "AOU"

# For each model of the admin: who looks, adds, deletes.
MODELS = {
    "accounts_administrativechange": (STAFF, "", ""),
    "accounts_apikey": (STAFF, "AO", "AO"),
    "accounts_team": (STAFF, "AO", "AO"),
    "auth_user": (STAFF, "AO", "A"),
    "auth_group": (STAFF, "A", "A"),
    "hooks_hookpolicy": (STAFF, "A", "A"),
    "hooks_webhook": (STAFF, "A", "A"),
    "inference_alert": (STAFF, "", ""),
    "inference_modelrow": (STAFF, "AO", "AO"),
    "inference_modelprice": (STAFF, "AO", "AO"),
}
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
    "admin/accounts/apikey/<path:object_id>/revoke/": "AO",
    "admin/accounts/apikey/<path:object_id>/rotate/": "AO",
    "admin/hooks/hookpolicy/try/": STAFF,
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
    "console/playground/": SIGNED_IN,
    "console/playground/pass/": "",
    "console/start/": SIGNED_IN,
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
# Of the management API, signed in by session: who reads, and who may try to write.
API = {
    "schema": (SIGNED_IN + "-", ""),
    "records": (SIGNED_IN, ""),
    "requests": (SIGNED_IN, ""),
    "requests/record_id/cancel": ("", SIGNED_IN),  # which finds his own alone
    "usage": (SIGNED_IN, ""),
    "models": ("AO", "AO"),
    "models/row_id": ("AO", "AO"),
    "models/row_id/status": ("AO", ""),
    "models/row_id/load": ("", "AO"),
    "models/row_id/unload": ("", "AO"),
    "hook-policies": ("A", "A"),
    "hook-policies/reorder": ("", "A"),
    "hook-policies/try": ("", "A"),
    "hook-policies/examples": ("", "A"),
    "hook-policies/changes": ("A", ""),
    "hook-policies/policy_id": ("A", "A"),
    "hook-policies/policy_id/changes": ("A", ""),
    "webhooks": ("A", "A"),
    "webhooks/changes": ("A", ""),
    "webhooks/webhook_id": ("A", "A"),
    "webhooks/webhook_id/changes": ("A", ""),
    "me": (SIGNED_IN, ""),
    "users": ("AO", "AO"),
    "users/user_id": ("AO", "AO"),
    "users/user_id/limits": ("AO", ""),
    "users/user_id/export": ("AO", ""),
    "users/user_id/erase": ("", "AO"),
    "teams": ("AO", "AO"),
    "teams/team_id": ("AO", "AO"),
    "teams/team_id/limits": ("AO", ""),
    "keys": (SIGNED_IN, SIGNED_IN),  # his own
    "keys/key_id": ("AO", SIGNED_IN),  # another's is not there
    "keys/key_id/limits": ("AO", ""),
    "keys/key_id/rotate": ("", "AO"),
    "changes": ("AO", ""),
}
REFUSED = {302, 401, 403, 404, 405}


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


def test_every_path_is_read_by_whom_the_tables_say(people, things) -> None:
    wrong = []
    for written, name in paths():
        readers = who_reads(written, name)
        for letter, role in LETTERS.items():
            status = people[role].get(address(written, things)).status_code
            if (status == 200) != (letter in readers) or (letter not in readers and status not in REFUSED):
                wrong.append((written, role, status))
    assert not wrong


def test_the_tables_have_nothing_that_is_not_there() -> None:
    written = [path for path, _ in paths()]
    assert set(PAGES) <= set(written)
    assert set(API) == {api_name(path) for path in written if path.startswith(("api/", "^api/"))}


@pytest.mark.parametrize("method", ["post", "patch", "delete", "put"])
def test_every_operation_is_open_to_whom_the_tables_say(people, things, method) -> None:
    wrong = []
    for written, _ in paths():
        if not written.startswith(("api/", "^api/")):
            continue
        _, writers = API[api_name(written)]
        for letter, role in LETTERS.items():
            if letter in writers and method == "delete":
                continue  # what is gone would be gone for the next one
            call = getattr(people[role], method)
            status = call(address(written, things), b"[]", content_type="application/json").status_code
            if letter not in writers and status not in REFUSED:
                wrong.append((written, role, status))
            if letter in writers and status == 401:
                wrong.append((written, role, status))
    assert not wrong


@pytest.mark.parametrize("role", ["auditor", "key owner", "nobody"])
def test_who_may_change_nothing_changes_nothing(people, things, role) -> None:
    def picture() -> dict[str, list[Any]]:
        kept = [model for model in apps.get_models() if model._meta.app_label not in ("sessions",)]
        return {
            model._meta.label: list(model.objects.order_by("pk").values_list())
            for model in kept
            if model._meta.label != "accounts.AdministrativeChange"
        }

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
        assert status in REFUSED | {400, 415} or is_own or name.endswith(("_changelist", "_history")), (
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
