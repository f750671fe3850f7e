"""Who gets in, and to what: each scope at each operation, and what signing in by session opens."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from accounts import keys, services
from accounts.api.failed_attempts import MAX_ATTEMPTS
from accounts.contracts import Limits
from accounts.models import ApiKey
from accounts.password_links import invitation_create, password_link_create
from accounts.scopes import Scope
from hooks.models import HookPolicy, HookReplay, Webhook
from inference.models import ModelPrice, ModelRow
from tests.integration.management.conftest import error_of

pytestmark = pytest.mark.django_db

MANAGE = frozenset({Scope.KEYS})
MODELS = frozenset({Scope.MODELS})
POLICIES = frozenset({Scope.POLICIES})
OWN_OR_MANAGE = frozenset({Scope.KEYS, Scope.KEYS_OWN})
RECORD = "01890a5d-ac96-774b-bcce-b302099a8057"
OPERATIONS = {
    ("GET", "/me"): frozenset(Scope),
    ("GET", "/users"): MANAGE,
    ("POST", "/users"): MANAGE,
    ("GET", "/users/{user}"): MANAGE,
    ("PATCH", "/users/{user}"): MANAGE,
    ("GET", "/users/{user}/invitation"): MANAGE,
    ("DELETE", "/users/{user}/invitation"): MANAGE,
    ("GET", "/users/{user}/password-link"): MANAGE,
    ("DELETE", "/users/{user}/password-link"): MANAGE,
    ("GET", "/password-links"): MANAGE,
    ("GET", "/teams"): MANAGE,
    ("POST", "/teams"): MANAGE,
    ("GET", "/teams/{team}"): MANAGE,
    ("PATCH", "/teams/{team}"): MANAGE,
    ("DELETE", "/teams/{team}"): MANAGE,
    ("GET", "/keys"): OWN_OR_MANAGE,
    ("POST", "/keys"): OWN_OR_MANAGE,
    ("GET", "/keys/{key}"): OWN_OR_MANAGE,
    ("PATCH", "/keys/{key}"): OWN_OR_MANAGE,
    ("DELETE", "/keys/{key}"): OWN_OR_MANAGE,
    ("POST", "/keys/{key}/rotate"): MANAGE,
    ("GET", "/keys/{key}/limits"): OWN_OR_MANAGE,
    ("GET", "/users/{user}/limits"): MANAGE,
    ("GET", "/teams/{team}/limits"): MANAGE,
    ("GET", "/changes"): MANAGE,
    ("GET", "/maintenance"): MODELS | {Scope.METRICS},
    ("PUT", "/maintenance"): MODELS,
    ("DELETE", "/maintenance"): MODELS,
    ("GET", "/models"): MODELS,
    ("POST", "/models"): MODELS,
    ("GET", "/models/{model}"): MODELS,
    ("PATCH", "/models/{model}"): MODELS,
    ("DELETE", "/models/{model}"): MODELS,
    ("GET", "/models/{model}/status"): MODELS,
    ("POST", "/models/{model}/load"): MODELS,
    ("POST", "/models/{model}/unload"): MODELS,
    ("GET", "/prices"): MODELS,
    ("POST", "/prices"): MODELS,
    ("GET", "/prices/changes"): MODELS,
    ("GET", "/prices/{price}"): MODELS,
    ("PATCH", "/prices/{price}"): MODELS,
    ("DELETE", "/prices/{price}"): MODELS,
    ("GET", "/hook-policies"): POLICIES,
    ("POST", "/hook-policies"): POLICIES,
    ("POST", "/hook-policies/reorder"): POLICIES,
    ("POST", "/hook-policies/examples"): POLICIES,
    ("POST", "/hook-policies/try"): POLICIES,
    ("GET", "/hook-policies/changes"): POLICIES,
    ("GET", "/hook-policies/{policy}"): POLICIES,
    ("PATCH", "/hook-policies/{policy}"): POLICIES,
    ("DELETE", "/hook-policies/{policy}"): POLICIES,
    ("GET", "/hook-policies/{policy}/changes"): POLICIES,
    ("GET", "/hook-policies/{policy}/replays"): POLICIES,
    ("POST", "/hook-policies/{policy}/replays"): POLICIES,
    ("GET", "/hook-policies/{policy}/replays/{replay}"): POLICIES,
    ("POST", "/hook-policies/{policy}/replays/{replay}/cancel"): POLICIES,
    ("POST", "/hook-policies/{policy}/replays/{replay}/resume"): POLICIES,
    ("GET", "/webhooks"): POLICIES,
    ("POST", "/webhooks"): POLICIES,
    ("GET", "/webhooks/changes"): POLICIES,
    ("GET", "/webhooks/{webhook}"): POLICIES,
    ("PATCH", "/webhooks/{webhook}"): POLICIES,
    ("DELETE", "/webhooks/{webhook}"): POLICIES,
    ("GET", "/webhooks/{webhook}/changes"): POLICIES,
    ("GET", "/records"): frozenset({Scope.USAGE, Scope.USAGE_ALL}),
    ("GET", "/usage"): frozenset({Scope.USAGE, Scope.USAGE_ALL}),
    ("GET", "/requests"): frozenset({Scope.USAGE, Scope.USAGE_ALL}),
    ("POST", "/requests/{record}/cancel"): OWN_OR_MANAGE,
}


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("operation", list(OPERATIONS), ids=" ".join)
def test_each_scope_opens_its_operations_and_no_other(program, operation, scope) -> None:
    method, path = operation
    caller = program(scopes=frozenset({scope}))
    other, _ = services.api_key_create(user=caller.row.user, name="other")
    team = services.team_create(name="t")
    model = ModelRow.objects.create(model_id="m", source="/m.gguf")
    policy = HookPolicy.objects.create(name="p", actions=[{"type": "tag", "name": "t"}])
    webhook = Webhook.objects.create(name="w", url="https://hook.example/")
    now = timezone.now()
    replay = HookReplay.objects.create(
        policy_id=policy.pk,
        policy={"name": "p"},
        start_at=now,
        end_at=now,
        looks_at_texts=False,
        state="done",
    )
    price = ModelPrice.objects.create(model="m", starts_on="2026-01-01", input_price=1, output_price=1)
    for make in (password_link_create, invitation_create):
        make(user=caller.row.user)
    ids = {
        "user": caller.row.user_id,
        "team": team.pk,
        "key": other.pk,
        "model": model.pk,
        "record": RECORD,
    }
    response = caller.call(
        method,
        path.format(**ids, policy=policy.pk, webhook=webhook.pk, replay=replay.pk, price=price.pk),
        {"no_such_field": 1},
    )
    if scope in OPERATIONS[operation]:
        assert response.status_code in (200, 202, 204, 400, 201)
    else:
        assert error_of(response)[:2] == (403, "permission_denied")


@pytest.mark.parametrize("operation", list(OPERATIONS), ids=" ".join)
def test_without_a_key_nothing_is_open(operation, client: Client) -> None:
    method, path = operation
    ids = dict.fromkeys(("user", "team", "key", "model", "policy", "webhook", "replay", "price"), 1)
    response = client.generic(method, "/api" + path.format(**ids, record=RECORD))
    assert error_of(response) == (401, "invalid_api_key", None)
    assert response["WWW-Authenticate"] == "Bearer"


class TestKeys:
    @pytest.mark.parametrize(
        "header", ["", "Bearer", "Basic YTpi", "Bearer sk-skippy-x", "bearer  \xff", f"Bearer {'x' * 9000}"]
    )
    def test_what_is_no_key_is_401(self, client: Client, header: str) -> None:
        assert error_of(client.get("/api/me", headers={"authorization": header}))[:2] == (
            401,
            "invalid_api_key",
        )

    def test_a_wrong_header_is_not_made_good_by_a_session(self, admin_client) -> None:
        assert admin_client.get("/api/me").status_code == 200
        assert admin_client.get("/api/me", headers={"authorization": "Bearer x"}).status_code == 401

    def test_an_ended_key_says_why_and_a_revocation_is_seen_at_once(self, program) -> None:
        caller = program()
        assert caller.get("/me").status_code == 200
        services.api_key_revoke(key=caller.row)
        assert error_of(caller.get("/me"))[:2] == (401, "api_key_revoked")
        expired = program()
        ApiKey.objects.filter(pk=expired.row.pk).update(
            created_at=timezone.now() - timedelta(2), expires_at=timezone.now() - timedelta(1)
        )
        assert error_of(expired.get("/me"))[:2] == (401, "api_key_expired")
        inactive = program("dan")
        User.objects.filter(username="dan").update(is_active=False)
        assert error_of(inactive.get("/me"))[:2] == (401, "account_inactive")

    def test_networks_hold_here_too(self, program) -> None:
        from ipaddress import ip_network

        caller = program(limits=Limits(allowed_networks=(ip_network("10.0.0.0/8"),)))
        assert error_of(caller.get("/me"))[:2] == (403, "permission_denied")
        assert (
            caller.client.get(
                "/api/me", headers={"authorization": f"Bearer {caller.key}"}, REMOTE_ADDR="10.1.2.3"
            ).json()["key_id"]
            == caller.row.pk
        )

    def test_use_is_noted(self, program) -> None:
        caller = program()
        caller.get("/me")
        caller.row.refresh_from_db()
        assert caller.row.last_used_at is not None

    def test_guessing_is_slowed_down_but_good_keys_go_on(self, program, client) -> None:
        caller, late = program(), program()
        assert caller.get("/me").status_code == 200
        for _ in range(MAX_ATTEMPTS):
            guess = keys.mint().plaintext
            assert client.get("/api/me", headers={"authorization": f"Bearer {guess}"}).status_code == 401
        response = late.get("/me")
        assert error_of(response)[:2] == (429, "rate_limit_exceeded")
        assert 1 <= int(response["Retry-After"]) <= 60
        assert caller.get("/me").status_code == 200
        elsewhere = late.client.get(
            "/api/me", headers={"authorization": f"Bearer {late.key}"}, REMOTE_ADDR="192.0.2.9"
        )
        assert elsewhere.status_code == 200


class TestSessions:
    def test_a_superuser_has_everything(self, admin_client) -> None:
        assert admin_client.get("/api/me").json()["scopes"] == [scope.value for scope in Scope]
        assert admin_client.get("/api/users").status_code == 200

    def test_changes_need_the_csrf_token(self, admin_user) -> None:
        browser = Client(enforce_csrf_checks=True)
        browser.force_login(admin_user)
        refused = browser.post("/api/teams", {"name": "x"}, content_type="application/json")
        assert error_of(refused)[:2] == (403, "permission_denied")
        browser.get("/admin/")
        browser.get("/admin/password_change/")
        token = browser.cookies["csrftoken"].value
        made = browser.post(
            "/api/teams", {"name": "x"}, content_type="application/json", headers={"x-csrftoken": token}
        )
        assert made.status_code == 201

    def test_staff_has_what_the_admin_lets_it_do(self, client) -> None:
        user = User.objects.create_user("member", is_staff=True)
        client.force_login(user)
        assert client.get("/api/users").status_code == 403
        wanted = ("add_user", "change_user", "add_apikey", "change_apikey")
        user.user_permissions.set(Permission.objects.filter(codename__in=wanted))
        assert client.get("/api/users").status_code == 200
        made = client.post("/api/keys", {"name": "x", "scopes": ["metrics"]}, content_type="application/json")
        assert made.status_code == 403

    def test_an_ordinary_user_sees_himself(self, client, bob) -> None:
        client.force_login(bob)
        assert client.get("/api/me").json()["scopes"] == ["usage", "keys_own"]
        assert client.get("/api/users").status_code == 403
