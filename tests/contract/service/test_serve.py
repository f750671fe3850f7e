"""The whole service as an operator starts it, with the real model, and what happens when parts die."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.supervisor.running_service import RunningService, wait_until
from tests.model_files import default_model_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

KEY = re.compile(r"sk-skippy-\w{49}")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    home = tmp_path / "a home with spaces"
    made = RunningService(
        home,
        environment={"SKIPPY_MODEL": str(default_model_path()), "SKIPPY_DRAIN_GRACE_S": "5"},
        arguments=("manage.py", "serve"),
    )
    yield made
    made.close()


def chat(service: RunningService, key: str) -> int:
    """The status of one small answer; 0 where nobody listens."""
    try:
        return httpx.post(
            f"http://127.0.0.1:{service.port}/v1/chat/completions",
            json={
                "model": "SmolLM2-135M-Instruct",
                "max_tokens": 2,
                "messages": [{"role": "user", "content": "hi"}],
            },
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
        ).status_code
    except httpx.HTTPError:
        return 0


def test_first_start_kills_stop_and_second_start(service):
    service.start()
    (key,) = KEY.findall(service.output)
    assert re.search(r"password\s+\S{10}", service.output)
    assert re.search(r"ready: API http://127.0.0.1:\d+/v1 .* model SmolLM2-135M-Instruct", service.output)
    assert chat(service, key) == 200

    for role in ("server", "postgres", "valkey", "worker", "beat"):
        killed = service.kill(role)
        wait_until(
            lambda role=role, killed=killed: service.has(role) and service.pid_of(role) != killed,
            limit_s=60,
            what=f"{role} is started again",
        )
        wait_until(lambda: chat(service, key) == 200, limit_s=60, what=f"answers after a killed {role}")

    assert service.stop(limit_s=60) == 0
    assert service.processes() == []
    assert not list(service.state.run.glob("*.sock")) and not list(service.state.run.glob("**/.s.PGSQL*"))

    service.start()
    assert KEY.findall(service.output) == []
    assert chat(service, key) == 200

    service.signal(signal.SIGKILL)
    service.wait_for_exit()
    wait_until(lambda: service.processes() == [], limit_s=10, what="no child is left")

    service.start()
    assert chat(service, key) == 200
    assert service.stop(limit_s=60) == 0
    logs = "".join(path.read_text(errors="replace") for path in service.state.logs.iterdir())
    assert key not in logs and key not in str(dict(os.environ))
