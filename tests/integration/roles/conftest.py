"""One person of each role, and one thing of each kind."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from accounts import services
from accounts.models import AdministrativeChange
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from hooks.contracts.points import HookPoint
from hooks.models import HookPolicy, HookReplay, Webhook
from inference.models import Alert, ModelPrice, ModelRow
from tests.integration.usage.records import record, save


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def people(db: None) -> dict[str, Client]:
    """By role, and "nobody" who has not signed in."""
    role_groups_ensure()
    clients = {"nobody": Client()}
    for role in Role:
        user = User.objects.create_user(role.value.replace(" ", "-"), password="first of all")
        role_set(user=user, role=role)
        clients[role.value] = Client()
        clients[role.value].force_login(User.objects.get(pk=user.pk))
    return clients


@pytest.fixture
def things(people: dict[str, Client]) -> dict[str, Any]:
    """Ids by the name that a path has for them; all of them are another's."""
    other = services.user_ensure(username="somebody-else")
    key, _ = services.api_key_create(user=other, name="other")
    services.api_key_revoke(key=key)
    team = services.team_create(name="others")
    policy = HookPolicy.objects.create(name="p", point=HookPoint.BEFORE.value, mode="off", order=1)
    webhook = Webhook.objects.create(name="w", url="https://hooks.example/x")
    replay = HookReplay.objects.create(
        policy_id=policy.pk,
        policy={"name": "p", "point": HookPoint.BEFORE.value},
        start_at=timezone.now(),
        end_at=timezone.now(),
        looks_at_texts=False,
        state="done",
    )
    model = ModelRow.objects.create(model_id="m", source="/m.gguf", engine={}, admission={})
    price = ModelPrice.objects.create(model="m", starts_on="2026-01-01", input_price=1, output_price=1)
    alert = Alert.objects.create(kind="k", subject="s", message="m", opened_at=timezone.now())
    made = record(user_id=other.pk, username="somebody-else", key_id=key.pk)
    save(made)
    return {
        "user_id": other.pk,
        "id": other.pk,
        "key_id": key.pk,
        "team_id": team.pk,
        "policy_id": policy.pk,
        "webhook_id": webhook.pk,
        "replay_id": replay.pk,
        "row_id": model.pk,
        "record_id": made.pk,
        "kind": "models",
        "accounts_apikey": key.pk,
        "accounts_team": team.pk,
        "accounts_administrativechange": AdministrativeChange.objects.latest("pk").pk,
        "auth_user": other.pk,
        "auth_group": Group.objects.create(name="of their own").pk,
        "hooks_hookpolicy": policy.pk,
        "hooks_webhook": webhook.pk,
        "inference_modelrow": model.pk,
        "inference_modelprice": price.pk,
        "inference_alert": alert.pk,
    }
