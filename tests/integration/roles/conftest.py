"""One person of each role, and one thing of each kind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from accounts import services
from accounts.models import AdministrativeChange
from accounts.password_links import invitation_create, password_link_create
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from accounts.self_service import SelfServiceBounds, self_service_set
from hooks.contracts.points import HookPoint
from hooks.models import HookPolicy, HookReplay, Webhook
from inference.models import Alert, GenerationText, ModelPrice, ModelRow
from tests.integration.usage.records import record, save


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def no_log() -> Iterator[None]:
    """Thousands of refusals are no news, and each has a traceback."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


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
        self_service_set(user=user, bounds=SelfServiceBounds(max_keys=5))
    return clients


@pytest.fixture
def things(people: dict[str, Client]) -> dict[str, Any]:
    """Ids by the name that a path has for them; all of them are another's."""
    other = services.user_ensure(username="somebody-else")
    other.email = "else@example.org"
    other.save()
    key, _ = services.api_key_create(user=other, name="key-of-another")
    services.api_key_revoke(key=key)
    team = services.team_create(name="team-of-others")
    services.user_team_set(user=other, team=team)
    empty_team = services.team_create(name="nobodys")
    password_link_create(user=other)
    link, _ = invitation_create(user=other)
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
    made = record(
        created_at=timezone.now(),
        user_id=other.pk,
        username="somebody-else",
        key_id=key.pk,
        key_name=key.name,
        team_id=team.pk,
        team_name=team.name,
        model="model-of-another",
        request_id="request-of-another",
    )
    save(made)
    GenerationText.objects.create(
        record_id=made.pk,
        created_at=made.created_at,
        expires_at=made.created_at + timedelta(days=1),
        user_id=other.pk,
        key_id=key.pk,
        request="words-of-another",
        answer="words-of-another",
    )
    return {
        "user_id": other.pk,
        "id": other.pk,
        "key_id": key.pk,
        "team_id": empty_team.pk,
        "full_team_id": team.pk,
        "policy_id": policy.pk,
        "webhook_id": webhook.pk,
        "replay_id": replay.pk,
        "row_id": model.pk,
        "price_id": price.pk,
        "record_id": made.pk,
        "kind": "models",
        "accounts_apikey": key.pk,
        "accounts_team": empty_team.pk,
        "accounts_passwordlink": link.pk,
        "token": "sl-skippy-of-nobody",
        "accounts_administrativechange": AdministrativeChange.objects.latest("pk").pk,
        "auth_user": other.pk,
        "auth_group": Group.objects.create(name="of their own").pk,
        "hooks_hookpolicy": policy.pk,
        "hooks_webhook": webhook.pk,
        "inference_modelrow": model.pk,
        "inference_modelprice": price.pk,
        "inference_alert": alert.pk,
    }
