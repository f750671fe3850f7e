"""Callers of the management API, by Django's own client: the whole of middleware, views and database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from accounts import services
from accounts.api.authentication import failed_attempts
from accounts.contracts import NO_LIMITS, Limits
from accounts.models import ApiKey
from accounts.scopes import DEFAULT_SCOPES, Scope
from accounts.selectors import api_key_cache


@dataclass
class Program:
    """A program with a key."""

    row: ApiKey
    key: str
    client: Client = field(default_factory=lambda: Client(raise_request_exception=True))

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.generic(
            method,
            f"/api{path}",
            data=b"" if body is None else body if isinstance(body, bytes) else _json(body),
            content_type="application/json",
            headers={"authorization": f"Bearer {self.key}", **headers},
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, {} if body is None else body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)


def _json(value: Any) -> bytes:
    import json

    return json.dumps(value).encode()


def error_of(response: Any) -> tuple[int, str, str | None]:
    """Status, code and param; also that it is the one error object and nothing of ours shows."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    for leak in ("Traceback", "site-packages", "DETAIL:", "psycopg", "ErrorDetail"):
        assert leak not in response.content.decode()
    assert response["x-request-id"]
    return response.status_code, error["code"], error["param"]


@pytest.fixture(autouse=True)
def fresh(settings) -> Iterator[None]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    for remembered in (failed_attempts, api_key_cache):
        remembered.forget_all()
    yield
    for remembered in (failed_attempts, api_key_cache):
        remembered.check_integrity()
        remembered.forget_all()


@pytest.fixture
def program() -> Callable[..., Program]:
    def made(
        username: str = "ann",
        scopes: frozenset[Scope] = DEFAULT_SCOPES,
        limits: Limits = NO_LIMITS,
        **rest: Any,
    ) -> Program:
        user = services.user_ensure(username=username)
        row, minted = services.api_key_create(user=user, name="p", scopes=scopes, limits=limits, **rest)
        return Program(row, minted.plaintext)

    return made


@pytest.fixture
def manager(program) -> Program:
    return program("manager", frozenset({Scope.KEYS}))


@pytest.fixture
def bob() -> User:
    return services.user_ensure(username="bob")


@pytest.fixture
def in_threads() -> Callable[[Callable[[], object], int], list[object]]:
    """Runs a call in so many threads at once, each with a connection of its own; results or errors."""

    def run(call: Callable[[], object], num_threads: int) -> list[object]:
        def one() -> object:
            try:
                return call()
            finally:
                connection.close()

        with ThreadPoolExecutor(num_threads) as threads:
            return [future.result() for future in [threads.submit(one) for _ in range(num_threads)]]

    return run
