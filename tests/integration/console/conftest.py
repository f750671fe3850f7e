"""People who look at the console, and what they have used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from accounts import services
from inference.models import GenerationRecord
from inference.usage.aggregation import usage_aggregate
from tests.filled_console import FilledConsole, clear, fill
from tests.integration.usage.records import forget_all, record, save


@pytest.fixture(autouse=True)
def empty(transactional_db: None, settings: Any) -> Iterator[None]:
    """Nothing is left for others."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    forget_all()
    yield
    forget_all()


@pytest.fixture
def filled() -> Iterator[FilledConsole]:
    clear()
    yield fill()
    clear()


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def ann() -> User:
    return services.user_ensure(username="ann")


@pytest.fixture
def bob() -> User:
    return services.user_ensure(username="bob")


@pytest.fixture
def as_ann(ann: User) -> Client:
    return signed_in(ann)


@pytest.fixture
def staff() -> Callable[..., Client]:
    """Who is staff and may do what is named."""

    def made(*permissions: str, name: str = "member") -> Client:
        user = User.objects.create_user(name, password="x", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        return signed_in(user)

    return made


@pytest.fixture
def operator(staff: Callable[..., Client]) -> Client:
    return staff("view_generationrecord", name="operator")


@pytest.fixture
def used() -> Callable[..., list[GenerationRecord]]:
    """So many requests of a user, an hour ago, counted."""

    def made(user: User, num_requests: int = 1, **fields: Any) -> list[GenerationRecord]:
        key, _ = services.api_key_create(user=user, name=f"key of {user.username}")
        at = timezone.now() - timedelta(hours=1)
        rows = [
            record(
                **{
                    "created_at": at,
                    "user_id": user.pk,
                    "username": user.username,
                    "key_id": key.pk,
                    "key_name": key.name,
                    "request_id": f"request-{user.username}-{number}",
                    "model": f"model-of-{user.username}",
                    **fields,
                }
            )
            for number in range(num_requests)
        ]
        save(*rows)
        usage_aggregate()
        return rows

    return made
