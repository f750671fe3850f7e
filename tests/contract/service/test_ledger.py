"""Records while everything dies: the real service under load, its server and its Postgres killed with -9."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from skippy_site.supervisor.discovery import embedded_urls
from tests.integration.supervisor.running_service import RunningService, wait_until
from tests.model.tiny_model import write_tiny_model
from tests.model_files import default_model_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

KEY = re.compile(r"sk-skippy-\w{49}")
MAX_TOKENS = 24
NUM_CLIENTS = 6


@dataclass
class Attempt:
    """What one client saw of one request."""

    request_id: str
    status: int = 0
    has_done: bool = False
    has_error: bool = False
    usage: tuple[int, int] | None = None

    @property
    def is_complete(self) -> bool:
        return self.status == 200 and self.has_done and not self.has_error


class Load:
    """So many clients, each asking one question after another until told to stop."""

    def __init__(self, port: int, key: str) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/chat/completions"
        self._key = key
        self._stop = threading.Event()
        self.attempts: list[Attempt] = []
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(NUM_CLIENTS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def num_complete(self) -> int:
        return sum(attempt.is_complete for attempt in self.attempts)

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            attempt = Attempt(str(uuid.uuid4()))
            self.attempts.append(attempt)
            try:
                self._ask(attempt, f"client {number} asks {attempt.request_id}")
            except httpx.HTTPError:
                time.sleep(0.05)

    def _ask(self, attempt: Attempt, text: str) -> None:
        body = {
            "model": "tiny",
            "stream": True,
            "max_tokens": MAX_TOKENS,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": text}],
        }
        headers = {"Authorization": f"Bearer {self._key}", "x-request-id": attempt.request_id}
        with httpx.stream("POST", self._url, json=body, headers=headers, timeout=30) as answer:
            attempt.status = answer.status_code
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    attempt.has_done = True
                elif line.startswith("data: "):
                    chunk = json.loads(line[6:])
                    attempt.has_error |= "error" in chunk
                    if chunk.get("usage"):
                        usage = chunk["usage"]
                        attempt.usage = (usage["prompt_tokens"], usage["completion_tokens"])
        if attempt.status != 200:
            time.sleep(0.05)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    model = write_tiny_model(default_model_path(), tmp_path / "tiny.gguf")
    made = RunningService(
        tmp_path / "home",
        environment={"SKIPPY_MODEL": str(model), "SKIPPY_MODEL_ID": "tiny", "SKIPPY_DRAIN_GRACE_S": "5"},
        arguments=("manage.py", "serve"),
    )
    yield made
    made.close()


def records(service: RunningService) -> dict[str, list[tuple[str, int, int]]]:
    """Outcome, input and output by request id."""
    found: dict[str, list[tuple[str, int, int]]] = {}
    url = embedded_urls(service.state).database_url
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT request_id, outcome, num_input_tokens, num_output_tokens FROM inference_generationrecord"
        )
        for request_id, *rest in rows:
            found.setdefault(request_id, []).append(tuple(rest))
    return found


def ledger_statistics(service: RunningService) -> dict[str, int]:
    answer = httpx.get(f"http://127.0.0.1:{service.port}/readyz", timeout=10)
    return dict((answer.json().get("statistics") or {}).get("ledger") or {})


def test_each_answer_that_was_complete_is_recorded_as_it_was_and_each_other_once(service):
    service.start()
    (key,) = KEY.findall(service.output)
    with Load(service.port, key) as load:
        for role in ("server", "postgres", "server", "postgres"):
            num_complete = load.num_complete
            wait_until(
                lambda goal=num_complete + 8: load.num_complete >= goal, limit_s=60, what="complete answers"
            )
            service.kill(role)
            wait_until(lambda role=role: service.has(role), limit_s=30, what=f"{role} is started again")
        num_complete = load.num_complete
        wait_until(lambda: load.num_complete >= num_complete + 8, limit_s=60, what="complete answers")

    wait_until(
        lambda: (
            ledger_statistics(service).get("num_backlog") == 0
            and ledger_statistics(service).get("num_live") == 0
        ),
        limit_s=15,
        what="all that was journalled is in the database",
    )
    found = records(service)
    assert service.stop(limit_s=60) == 0
    assert list(service.state.journal.iterdir()) == []

    complete = [attempt for attempt in load.attempts if attempt.is_complete]
    assert len(complete) >= 40
    for attempt in complete:
        assert [("completed", *(attempt.usage or ()))] == found.get(attempt.request_id), attempt
    for attempt in load.attempts:
        rows = found.get(attempt.request_id, [])
        # Where no answer began, the request may not even have reached a server.
        assert len(rows) == 1 or (not rows and attempt.status in (0, 503)), (attempt, rows)
        assert all(0 <= num_output <= MAX_TOKENS for _, _, num_output in rows)
    outcomes = [rows[0][0] for rows in found.values()]
    assert outcomes.count("interrupted") >= 1
    assert len(found) <= len(load.attempts)
