"""The secret part of keys, followed through a whole server that tells as much as it can: keys are used well,
wrongly, expired, revoked and over budget at every door, and then everything is searched."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import psycopg.sql
import pytest

from accounts.keys import LAST_LENGTH, VISIBLE_PREFIX_LENGTH
from tests.contract.api.conftest import LiveService, start_service, stop_service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PIECE_CHARS = 12
DOORS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/models",
    "/v1/usage",
    "/v1/usage?format=csv",
    "/v1/none",
)
DOORS += (
    "/api/me",
    "/api/keys",
    "/api/records",
    "/api/usage",
    "/api/schema/",
    "/metrics",
    "/readyz",
    "/admin/",
    "/console/",
)
MESSAGES: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
QUESTIONS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": MESSAGES,
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": MESSAGES,
    "/v1/tokenize": {"prompt": "hi"},
}


@dataclass
class Told:
    """Everything that the service answered, status line to body."""

    client: httpx.Client
    model: str
    texts: list[str]

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer = self.client.request(method, path, **more)
        self.client.cookies.clear()
        self.texts.append(f"{answer.status_code} {answer.headers} {answer.text}")
        return answer

    def everywhere(self, key: str) -> set[int]:
        """At each door, as a key has to be sent; the statuses."""
        headers = {"Authorization": f"Bearer {key}"}
        found = {self.ask("GET", path, headers=headers).status_code for path in DOORS}
        for path, question in QUESTIONS.items():
            body = {"model": self.model, "max_tokens": 2, **question}
            if path == "/v1/responses":
                body["max_output_tokens"] = body.pop("max_tokens")
            for more in ({}, {"stream": True}, {"max_tokens": 0}, {"model": "none"}):
                found.add(self.ask("POST", path, json=body | more, headers=headers).status_code)
        found.add(self.ask("POST", "/v1/messages", json=MESSAGES, headers={"x-api-key": key}).status_code)
        return found

    def in_wrong_places(self, key: str, good: str) -> None:
        """Where a key does not belong, alone or beside a good one."""
        basic = base64.b64encode(f"user:{key}".encode()).decode()
        alone: list[dict[str, Any]] = [
            {"headers": {"Authorization": key}},
            {"headers": {"Authorization": f"Basic {basic}"}},
            {"headers": {"Authorization": f"Bearer {key}, Bearer {key}"}},
            {"headers": [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")]},
            {"headers": {"x-api-key": key}},
            {"headers": {"Cookie": f"sessionid={key}"}},
            {"params": {"api_key": key}},
        ]
        for path in ("/v1/usage", "/api/me", "/metrics", f"/v1/{key}", f"/api/keys/{key}", f"/{key}"):
            for more in alone:
                self.ask("GET", path, **more)
        auth = {"Authorization": f"Bearer {good}"}
        beside: list[dict[str, Any]] = [
            {"headers": auth | {"x-request-id": key}},
            {"headers": auth | {"Idempotency-Key": key}},
            {"headers": auth | {"User-Agent": key, "Referer": f"http://{key}/", "X-Forwarded-For": key}},
            {"headers": auth, "params": {"key_id": key, key: "1"}},
        ]
        body = {
            "model": self.model,
            "max_tokens": 2,
            "messages": [{"role": "user", "content": f"my key is {key}"}],
        }
        in_body: list[dict[str, Any]] = [
            {},
            {"user": key, "metadata": {"key": key, key: "x"}},
            {"model": key},
            {"stream": key},
            {key: 1},
            {"stop": [key]},
            {"max_tokens": key},
        ]
        for more in beside:
            self.ask("POST", "/v1/chat/completions", json=body, **more)
            self.ask("GET", "/v1/usage", **more)
            self.ask("GET", "/api/records", **more)
        for fields in in_body:
            self.ask("POST", "/v1/chat/completions", json=body | fields, headers=auth)
            self.ask("POST", "/v1/chat/completions", json=body | {"stream": True} | fields, headers=auth)
        asked: dict[str, Any] = {"model": self.model, "max_tokens": 2}
        said: dict[str, Any] = {"input": f"my key is {key}", "max_output_tokens": 2, "model": self.model}
        for path, body in (
            ("/v1/messages", asked | MESSAGES),
            ("/v1/messages", asked | MESSAGES | {"metadata": {"user_id": key}}),
            ("/v1/responses", said),
            ("/v1/responses", said | {"previous_response_id": key}),
            ("/v1/tokenize", asked | {"prompt": f"my key is {key}"}),
        ):
            for fields in ({}, {"model": key}, {key: 1}):
                self.ask("POST", path, json=body | fields, headers=auth)
        self.ask("GET", f"/v1/responses/{key}", headers=auth)
        self.ask("POST", "/api/keys", json={"name": key, key: key}, headers=auth)


def make_keys(service: LiveService) -> dict[str, str]:
    """One of each kind; `all` may do everything and keeps text, and is made as an operator makes it."""
    scopes = ("inference", "usage", "usage_all", "keys", "keys_own", "metrics")
    options = [word for scope in scopes for word in ("--scope", scope)]
    made = json.loads(
        service.manage("api_key_create", "--user", "eve", "--name", "all", "--keeps-text", "--json", *options)
    )
    keys = {"plain": service.key, "all": str(made["key"])}
    auth = {"Authorization": f"Bearer {keys['all']}"}
    for name, limits in (
        ("spent", {"max_tokens_per_day": 0}),
        ("slow", {"max_requests_per_minute": 1}),
        ("elsewhere", {"allowed_networks": ["10.9.8.0/24"]}),
        ("expired", {}),
        ("revoked", {}),
    ):
        body = {"name": name, "limits": limits}
        answer = httpx.post(f"{service.url}/api/keys", json=body, headers=auth, timeout=20)
        assert answer.status_code == 201, answer.text
        keys[name] = answer.json()["key"]
        if name == "revoked":
            path = f"/api/keys/{answer.json()['id']}"
            assert httpx.delete(f"{service.url}{path}", headers=auth, timeout=20).is_success
    with psycopg.connect(service.environment["DATABASE_URL"]) as connection:
        connection.execute(
            "UPDATE accounts_apikey SET created_at = now() - interval '2 days', "
            "expires_at = now() - interval '1 day' WHERE name = 'expired'"
        )
    plain = keys["plain"]
    keys["mistyped"] = plain[:-1] + ("0" if plain[-1] != "0" else "1")
    keys["unknown"] = "sk-skippy-" + "unknownUNKNOWN" * 3 + "x" + "000000"
    return keys


def tables(url: str) -> str:
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        read = psycopg.sql.SQL("SELECT row_to_json(t)::text FROM {} AS t")
        rows = [
            row
            for (name,) in names
            for (row,) in connection.execute(read.format(psycopg.sql.Identifier(name))).fetchall()
        ]
    return "\n".join(rows)


def files(folder: Path) -> str:
    return "\n".join(
        path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()
    )


def pieces(key: str) -> Iterator[str]:
    """Of the secret part, as it is and as headers of the scheme Basic have it."""
    secret = key[VISIBLE_PREFIX_LENGTH:-LAST_LENGTH]
    for start in range(len(secret) - PIECE_CHARS + 1):
        yield secret[start : start + PIECE_CHARS]
    basic = base64.b64encode(f"user:{key}".encode()).decode()
    yield basic[32:64]
    yield secret.encode().hex()[:32]


@pytest.mark.parametrize("told", ["everything", "as little as is usual"])
def test_the_secret_part_is_nowhere_but_with_its_owner(tmp_path: Path, told: str) -> None:
    loud = {
        "SKIPPY_TELEMETRY": "debug",
        "SKIPPY_TELEMETRY_STDERR": "1",
        "SKIPPY_LOG_LEVEL": "debug",
        "SKIPPY_LOG_FORMAT": "json",
    }
    settings, server = (loud, "daphne") if told == "everything" else ({}, "uvicorn")
    service = start_service(tmp_path, server, **settings)
    try:
        keys = make_keys(service)
        with httpx.Client(base_url=service.url, timeout=60) as client:
            asked = Told(client, service.model, [])
            statuses = {name: asked.everywhere(key) for name, key in keys.items()}
            for name in ("plain", "expired"):
                asked.in_wrong_places(keys[name], keys["all"])
        assert {200, 400, 404} <= statuses["plain"] and 200 in statuses["all"]
        assert 429 in statuses["spent"] & statuses["slow"] and 403 in statuses["elsewhere"]
        for name in ("expired", "revoked", "mistyped", "unknown"):
            assert 401 in statuses[name], name
        in_files_while_it_ran = files(tmp_path)
        assert "journal" in {path.name for path in tmp_path.iterdir()}
    finally:
        stop_service(service)
    stored = tables(service.environment["DATABASE_URL"])
    assert keys["plain"][:VISIBLE_PREFIX_LENGTH] in stored, "tables were read"
    assert "my key is" in stored, "text was kept"
    for place, text in {
        "files": in_files_while_it_ran,
        "files after the stop": files(tmp_path),
        "tables": stored,
        "answers": "\n".join(asked.texts),
    }.items():
        for name, key in keys.items():
            for piece in pieces(key):
                at = text.find(piece)
                assert at < 0, f"a part of the key {name} is in {place}: {text[max(0, at - 200) : at]}"
