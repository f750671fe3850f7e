"""A live service with the real model, on both ASGI servers, for clients that know nothing of us."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import openai
import psycopg
import pytest

from tests.model_files import default_model_path

ROOT = Path(__file__).parents[3]
PR_SET_PDEATHSIG = 1


@dataclass
class LiveService:
    """A running server process and a key for it."""

    port: int
    key: str
    process: subprocess.Popen[bytes]
    environment: dict[str, str]
    log: Path
    model: str = ""
    clients: list[openai.OpenAI] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def client(self, **options: Any) -> openai.OpenAI:
        made = openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=options.pop("api_key", self.key), max_retries=0, **options
        )
        self.clients.append(made)
        return made

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(
            f"{self.url}/v1{path}",
            content=content,
            headers={"Content-Type": "application/json", **self.auth, **headers},
            timeout=60,
        )

    def chat(self, text: str = "Say hi", **fields: Any) -> httpx.Response:
        fields.setdefault("max_tokens", 8)
        messages = [{"role": "user", "content": text}]
        return self.post("/chat/completions", {"model": self.model, "messages": messages, **fields})

    def events(self, path: str = "/chat/completions", **fields: Any) -> list[Any]:
        """Parsed SSE data of a stream; every line of it must be SSE."""
        found: list[Any] = []
        with httpx.stream(
            "POST",
            f"{self.url}/v1{path}",
            json={"model": self.model, "stream": True, **fields},
            headers=self.auth,
            timeout=60,
        ) as response:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                if line.startswith("data: "):
                    found.append(line[6:] if line[6:] == "[DONE]" else json.loads(line[6:]))
                else:
                    assert line == "" or line.startswith(":"), line
        return found

    def statistics(self) -> dict[str, Any]:
        """What the engine and admission of its one model hold right now, beside the rest."""
        statistics = httpx.get(f"{self.url}/readyz", timeout=10).json()["statistics"]
        (model,) = statistics.pop("models").values()
        return {**statistics, **model}

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def alive(self) -> None:
        answer = self.chat(max_tokens=1)
        assert answer.status_code == 200, (answer.status_code, answer.text)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_database(name: str) -> str:
    """A database of its own beside the tests', by the test run's Postgres; its URL."""
    parts = psycopg.conninfo.conninfo_to_dict(os.environ["DATABASE_URL"])
    with psycopg.connect(**parts, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    return f"postgresql://{parts['user']}@/{name}?host={quote(str(parts['host']), safe='')}"


def start_service(tmp_path: Path, server: str, **settings: str) -> LiveService:
    """Migrate a fresh database, make a key, start the server, wait until it is ready."""
    port = free_port()
    environment = {
        **os.environ,
        "SKIPPY_HOME": str(tmp_path),
        "SKIPPY_PORT": str(port),
        "SKIPPY_SERVER": server,
        "SKIPPY_MODEL_PATH": str(default_model_path()),
        "DATABASE_URL": make_database(f"live_{server}_{port}"),
        "DJANGO_SETTINGS_MODULE": "skippy_site.settings",
        **settings,
    }
    service = LiveService(port, "", None, environment, tmp_path / "server.log")  # type: ignore[arg-type]
    service.manage("migrate", "--noinput", "-v0")
    service.key = json.loads(service.manage("api_key_create", "--user", "ada", "--name", "live", "--json"))[
        "key"
    ]
    with service.log.open("wb") as log:
        service.process = subprocess.Popen(
            [sys.executable, "-m", "skippy_site.servers"],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            # Ends with the test run, also when that is killed.
            preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
        )
    deadline = time.monotonic() + 60
    while True:
        if service.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"the server did not get ready:\n{service.log.read_text()[-4000:]}")
        try:
            if httpx.get(f"{service.url}/readyz", timeout=5).status_code == 200:
                break
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    service.model = httpx.get(f"{service.url}/v1/models", headers=service.auth).json()["data"][0]["id"]
    return service


def stop_service(service: LiveService) -> None:
    for client in service.clients:
        client.close()
    if service.process.poll() is None:
        service.process.send_signal(signal.SIGTERM)
        try:
            service.process.wait(40)
        except subprocess.TimeoutExpired:
            service.process.kill()
            service.process.wait()
            raise
    assert service.process.returncode == 0, service.log.read_text()[-4000:]
    log = service.log.read_text()
    assert "Traceback" not in log, log[-6000:]
    assert service.key not in log


# What these look at is behind the server, whichever it is: one of them is enough, unless
# SKIPPY_TEST_ALL_SERVERS=1 wants both.
OF_ANY_SERVER = {
    "test_anthropic_client",
    "test_embeddings",
    "test_hardware",
    "test_limits",
    "test_management",
    "test_many_answers",
    "test_many_models",
    "test_mixed_load",
    "test_phases",
    "test_playground",
    "test_policies",
    "test_policy_story",
    "test_prefix_cache",
    "test_responses_client",
    "test_schemas",
    "test_speculation",
    "test_structured_output",
    "test_usage",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("SKIPPY_TEST_ALL_SERVERS"):
        return
    here = Path(__file__).parent
    left = {item for item in items if item.path.stem in OF_ANY_SERVER and "[uvicorn" in item.name}
    left = {item for item in left if item.path.parent == here}
    if left:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=list(left))


@pytest.fixture(scope="session", params=["daphne", "uvicorn"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    service = start_service(tmp_path_factory.mktemp(f"live-{request.param}"), request.param)
    yield service
    stop_service(service)
