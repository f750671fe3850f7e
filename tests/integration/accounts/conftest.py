"""Users and keys for the tests of accounts, on the real database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection

from accounts import services
from accounts.keys import MintedKey
from accounts.models import ApiKey
from accounts.selectors import api_key_cache


@pytest.fixture(autouse=True)
def quick_passwords(settings) -> None:
    """Signing in is not what is tested here, and the real hasher takes half a second for each user."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No test sees what another one's look-ups left in this process."""
    api_key_cache.forget_all()
    yield
    api_key_cache.check_integrity()
    api_key_cache.forget_all()


@pytest.fixture
def ann() -> User:
    return services.user_ensure(username="ann")


@pytest.fixture
def key(ann: User) -> tuple[ApiKey, MintedKey]:
    return services.api_key_create(user=ann, name="laptop")


@pytest.fixture
def in_threads() -> Callable[[Callable[[], object], int], list[object]]:
    """Runs a call in so many threads at once, each with a connection of its own; results or errors."""

    def run(call: Callable[[], object], num_threads: int) -> list[object]:
        def one() -> object:
            try:
                return call()
            except Exception as error:
                return error
            finally:
                connection.close()

        with ThreadPoolExecutor(num_threads) as threads:
            return [future.result() for future in [threads.submit(one) for _ in range(num_threads)]]

    return run
