"""Policies and webhooks as rows, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import uvloop
from django.db import connection

from hooks.contracts.actions import Tag
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import Policy
from hooks.contracts.webhook_settings import WebhookSettings
from hooks.models import HookPolicy, Webhook
from hooks.services.policies import policy_create
from hooks.services.webhooks import webhook_create
from hooks.webhooks.caller import HttpWebhookCaller
from tests.webhook_receiver import Receiver, here

SECRET = "a-secret-of-some-length"


def policy_for(name: str = "watch", **members: Any) -> Policy:
    """One that tags, off."""
    return Policy(
        **{"policy_id": 0, "name": name, "point": HookPoint.BEFORE, "actions": (Tag("seen"),), **members}
    )


def webhook_for(name: str = "review", **members: Any) -> WebhookSettings:
    return WebhookSettings(
        **{"webhook_id": 0, "name": name, "url": "https://hook.example/path", "secret": SECRET, **members}
    )


def write_past(table: str, change: str, pk: int | None = None) -> None:
    """As somebody does who knows better than the checks; all rows, or one."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {change} WHERE id = %s OR %s", [pk, pk is None])  # noqa: S608


@pytest.fixture
def make() -> Callable[..., HookPolicy]:
    def made(name: str = "watch", description: str = "", **members: Any) -> HookPolicy:
        return policy_create(policy=policy_for(name, **members), description=description)

    return made


@pytest.fixture
def make_webhook() -> Callable[..., Webhook]:
    def made(name: str = "review", **members: Any) -> Webhook:
        return webhook_create(settings=webhook_for(name, **members))

    return made


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as made:
        yield made


@pytest.fixture
async def caller() -> AsyncIterator[HttpWebhookCaller]:
    made = HttpWebhookCaller(resolve=here)
    yield made
    made.check_integrity()
    await made.close()


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Each of the two servers has its own event loop, with transports of its own: whoever speaks HTTP is
    tried on both."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.path.stem in ("test_webhook_caller", "test_hostile_webhooks"):
        loops["uvloop"] = uvloop.new_event_loop
    return loops
