"""A service that has been used for some weeks, for tests that look at its pages: a few of everything, with
long and odd names among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Group, User
from django.utils import timezone

from accounts import services
from accounts.models import ApiKey
from accounts.password_links import invitation_create
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from hooks.contracts.webhook_settings import WebhookSettings
from hooks.models import HookPolicy, Webhook
from hooks.services.policies import policies_add_examples
from hooks.services.webhooks import webhook_create
from inference.domain.outcomes import Outcome
from inference.models import (
    Alert,
    GenerationRecord,
    GenerationText,
    ModelPrice,
    ModelReport,
    ModelRow,
    StoredEvent,
)
from inference.usage.aggregation import usage_aggregate
from tests.integration.usage.records import forget_all, record, save

LONG = "a-name-that-is-as-long-as-people-make-them-when-nobody-stops-them-" + 30 * "x"
NAMES = ("ann", "bob", "carol", LONG, "zoë+tests@example.org", "محمد")
MODELS = ("small", "large", f"org/{LONG}")
ENDPOINTS = ("chat.completions", "completions", "embeddings", "responses", "messages")
NUM_RECORDS = 360
REFUSALS = (
    ("rate_limit", "rate_limit_exceeded", 429),
    ("budget", "insufficient_quota", 429),
    ("queue_full", "server_overloaded", 429),
    ("predicted_wait", "server_overloaded", 429),
    ("hook", "permission_denied", 403),
)
ENDINGS: tuple[tuple[Outcome, str, int], ...] = (
    (Outcome.REJECTED, "", 429),
    (Outcome.BACKEND_ERROR, "generation_failed", 502),
    (Outcome.TIMED_OUT, "timeout", 408),
    (Outcome.CANCELLED, "request_cancelled", 499),
    (Outcome.CLIENT_DISCONNECT, "receiver_dropped", 499),
    (Outcome.INTERRUPTED, "", 0),
)


@dataclass
class FilledConsole:
    """What is there; `users` by role."""

    records: list[GenerationRecord]
    keys: list[ApiKey]
    users: dict[str, User] = field(default_factory=dict)
    things: dict[str, Any] = field(default_factory=dict)
    """One of each model of the admin, by app_model."""


def clear() -> None:
    forget_all()
    for model in (GenerationText, ModelPrice, Alert):
        model.objects.all().delete()


def fill() -> FilledConsole:
    """Everything but sessions. Call `clear` before and behind it."""
    role_groups_ensure()
    members = [services.user_ensure(username=name) for name in NAMES]
    teams = [services.team_create(name=name) for name in ("research", LONG[:140])]
    for place, member in enumerate(members[1:]):
        services.user_team_set(user=member, team=teams[place % 2])
    keys = [
        services.api_key_create(user=member, name=name)[0]
        for member in members
        for name in ("laptop", f"<b>{member.username}</b> & co"[:100])
    ]
    services.api_key_revoke(key=keys[1])
    records = _records(members, keys, teams)
    save(*records)
    usage_aggregate()
    filled = FilledConsole(records, keys)
    for role in Role:
        user = User.objects.create_user(role.value.replace(" ", "-"), password="first of all")
        role_set(user=user, role=role)
        filled.users[role.value] = User.objects.get(pk=user.pk)
    filled.things = _things(filled, teams)
    return filled


def _records(members: list[Any], keys: list[ApiKey], teams: list[Any]) -> list[GenerationRecord]:
    made, now = [], timezone.now()
    for place in range(NUM_RECORDS):
        number = place % len(members)
        member, key = members[number], keys[2 * number + place % 2]
        team = None if number == 0 else teams[(number - 1) % 2]
        fields: dict[str, Any] = {
            "created_at": now - timedelta(hours=1.7 * place, minutes=number),
            "user_id": member.pk,
            "username": member.username,
            "key_id": key.pk,
            "key_name": key.name,
            "team_id": None if team is None else team.pk,
            "team_name": "" if team is None else team.name,
            "request_id": f"request-{place}" if place % 40 else f"{LONG[:50]}-{place}",
            "model": MODELS[place % 3],
            "endpoint": ENDPOINTS[place % 5],
            "is_stream": place % 2 == 0,
            "num_input_tokens": 100 + 37 * place,
            "num_cached_tokens": 10 * place,
            "num_output_tokens": 20 + place,
            "first_token_s": 0.05 + 0.01 * (place % 20),
            "total_s": 0.5 + 0.1 * (place % 15),
            "finish_reason": ("stop", "length", "tool_calls")[place % 3],
            "metadata": {"ticket": "<7>", LONG[:64]: LONG} if place % 50 == 0 else {},
        }
        if place % 4 == 0:
            fields |= _ending(place // 4)
        if place % 7 == 0:
            fields["hook_decisions"] = [_decision(place)]
        made.append(record(**fields))
    return made


def _ending(place: int) -> dict[str, Any]:
    outcome, code, status = ENDINGS[place % len(ENDINGS)]
    found = {"outcome": outcome.value, "error_code": code, "status": status, "finish_reason": ""}
    if outcome is Outcome.REJECTED:
        reason, code, status = REFUSALS[place // len(ENDINGS) % len(REFUSALS)]
        found |= {"rejection_reason": reason, "error_code": code, "status": status}
        found |= {"queue_s": None, "first_token_s": None, "time_per_token_s": None}
        found |= {"num_input_tokens": 0, "num_cached_tokens": 0, "num_output_tokens": 0}
    return found


def _decision(place: int) -> dict[str, Any]:
    return {
        "policy_id": 1 + place % 3,
        "policy": ("no secrets", LONG[:100], "mask-personal-output")[place % 3],
        "point": ("before", "output", "generation")[place % 3],
        "actions": (["deny"], ["mask"], ["inject", "stop"])[place % 3],
        "result": ("applied", "observed", "failed_open")[place % 3],
        "reason": "a word",
        "elapsed_ms": 1.5,
    }


def _things(filled: FilledConsole, teams: list[Any]) -> dict[str, Any]:
    now, first = timezone.now(), filled.records[0]
    policies_add_examples()
    for number in range(3):
        webhook_create(
            settings=WebhookSettings(
                webhook_id=0,
                name=f"webhook {number}",
                url=f"https://hooks{number}.example/x",
                secret="s" * 32,
            )
        )
    rows = [
        ModelRow.objects.create(
            model_id=name,
            source=f"/models/{number}.gguf",
            aliases=[f"alias-{number}"],
            is_default=number == 0,
            engine={},
            admission={},
        )
        for number, name in enumerate(MODELS)
    ]
    ModelReport.objects.create(
        process_id=first.pk, process_name="server-1", row=rows[0], state="failed", revision=1,
        cause="the file is not there", num_running=0, memory_bytes=2**30,
    )  # fmt: skip
    for model in MODELS[:2]:
        for year in ("2020", "2025"):
            ModelPrice.objects.create(
                model=model, starts_on=f"{year}-01-01", input_price=1, cached_price="0.1", output_price=4
            )
    for number in range(25):
        Alert.objects.create(
            kind=("budget", "engine_down")[number % 2],
            subject=f"key {number}",
            message=f"Something that lasts: {LONG}",
            opened_at=now - timedelta(hours=number),
            closed_at=now if number % 3 else None,
        )
    for name in ("stage.openai_tokenize", "stage.engine_prefill"):
        StoredEvent.objects.create(
            at=first.created_at + timedelta(milliseconds=3),
            name=name,
            request_id=first.request_id,
            elapsed_s=0.002,
            attributes={"llama_stage.prompt_token_count": 12, "long": LONG},
        )
    GenerationText.objects.create(
        record_id=first.pk,
        created_at=now,
        expires_at=now + timedelta(days=1),
        user_id=first.user_id,
        key_id=first.key_id,
        request='{"messages": [{"role": "user", "content": "<b>' + LONG + '</b>"}]}',
        answer="It was said. " * 50,
    )
    return {
        "accounts_apikey": filled.keys[0].pk,
        "accounts_team": teams[0].pk,
        "accounts_passwordlink": invitation_create(user=User.objects.get(username="carol"))[0].pk,
        "accounts_administrativechange": apps.get_model("accounts", "administrativechange")
        .objects.latest("pk")
        .pk,
        "auth_user": filled.keys[0].user_id,
        "auth_group": Group.objects.create(name="of their own").pk,
        "hooks_hookpolicy": HookPolicy.objects.latest("pk").pk,
        "hooks_webhook": Webhook.objects.latest("pk").pk,
        "inference_modelrow": rows[0].pk,
        "inference_modelprice": ModelPrice.objects.latest("pk").pk,
        "inference_alert": Alert.objects.latest("pk").pk,
    }
