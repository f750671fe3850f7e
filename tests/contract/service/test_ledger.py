"""Records while everything dies: the real service under load, its server and its Postgres killed with -9."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    headers: httpx.Headers = field(default_factory=httpx.Headers)

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
            try:
                attempt = self.ask(f"client {number} asks")
            except httpx.HTTPError:
                time.sleep(0.05)
            else:
                time.sleep(0.0 if attempt.status == 200 else 0.05)

    def ask(
        self, text: str, *, max_tokens: int = MAX_TOKENS, begun: threading.Event | None = None
    ) -> Attempt:
        """Ask once; `begun` is set when the answer's first words are there."""
        attempt = Attempt(str(uuid.uuid4()))
        self.attempts.append(attempt)
        body = {
            "model": "tiny",
            "stream": True,
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": f"{text} {attempt.request_id}"}],
        }
        headers = {"Authorization": f"Bearer {self._key}", "x-request-id": attempt.request_id}
        with httpx.stream("POST", self._url, json=body, headers=headers, timeout=30) as answer:
            attempt.status = answer.status_code
            attempt.headers = answer.headers
            for line in answer.iter_lines():
                if begun is not None and line:
                    begun.set()
                if line == "data: [DONE]":
                    attempt.has_done = True
                elif line.startswith("data: "):
                    chunk = json.loads(line[6:])
                    attempt.has_error |= "error" in chunk
                    if chunk.get("usage"):
                        usage = chunk["usage"]
                        attempt.usage = (usage["prompt_tokens"], usage["completion_tokens"])
        return attempt


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder: Path = tmp_path_factory.mktemp("ledger")
    model = write_tiny_model(default_model_path(), folder / "tiny.gguf")
    made = RunningService(
        folder / "home",
        environment={"SKIPPY_MODEL": str(model), "SKIPPY_MODEL_ID": "tiny", "SKIPPY_DRAIN_GRACE_S": "5"},
        arguments=("manage.py", "serve"),
    )
    made.start()
    yield made
    code = made.stop(limit_s=60) if made.is_alive else None
    leftover = list(made.state.journal.iterdir())
    made.close()
    assert (code, leftover) == (0, [])


@contextlib.contextmanager
def stopped_postgres(service: RunningService) -> Iterator[None]:
    """Postgres and all of its processes stand still: nobody answers, and no connection is closed."""
    postmaster = service.pid_of("postgres")
    pids = [postmaster, *children_of(postmaster)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def children_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(folder.name))
    return found


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


def everything_recorded(service: RunningService) -> bool:
    statistics = ledger_statistics(service)
    return statistics.get("num_backlog") == 0 and statistics.get("num_live") == 0


def test_answers_end_and_are_recorded_while_the_database_is_away(service):
    (key,) = KEY.findall(service.output)
    load = Load(service.port, key)
    assert load.ask("warm up").is_complete
    begun, ended = threading.Event(), threading.Event()

    def ask() -> None:
        with contextlib.suppress(httpx.HTTPError):
            load.ask("a long answer", max_tokens=200, begun=begun)
            ended.set()

    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(20)
    with stopped_postgres(service):
        assert ended.wait(25), "running answers end without a database"
        journal = b"".join(path.read_bytes() for path in service.state.journal.iterdir())
        time.sleep(4.5)
        refused = load.ask("a newcomer")
    asking.join()

    assert load.attempts[1].is_complete and load.attempts[1].usage[1] == 200
    assert refused.status == 503 and int(refused.headers["retry-after"]) > 0
    wait_until(lambda: everything_recorded(service), limit_s=20, what="the journal is in the database")
    assert ledger_statistics(service)["total_journalled"] >= 1
    found = records(service)
    for attempt in load.attempts[:2]:
        assert found[attempt.request_id] == [("completed", *attempt.usage)]
    assert refused.request_id not in found
    assert load.attempts[1].request_id.encode() in journal
    assert key.encode() not in journal and b"a long answer" not in journal


def test_each_answer_that_was_complete_is_recorded_as_it_was_and_each_other_once(service):
    (key,) = KEY.findall(service.output)
    with Load(service.port, key) as load:
        for role in ("server", "postgres", "server", "postgres"):
            num_complete = load.num_complete
            wait_until(
                lambda goal=num_complete + 6: load.num_complete >= goal, limit_s=60, what="complete answers"
            )
            service.kill(role)
            wait_until(lambda role=role: service.has(role), limit_s=30, what=f"{role} is started again")
        num_complete = load.num_complete
        wait_until(lambda: load.num_complete >= num_complete + 6, limit_s=60, what="complete answers")

    wait_until(
        lambda: (
            ledger_statistics(service).get("num_backlog") == 0
            and ledger_statistics(service).get("num_live") == 0
        ),
        limit_s=15,
        what="all that was journalled is in the database",
    )
    found = records(service)

    complete = [attempt for attempt in load.attempts if attempt.is_complete]
    assert len(complete) >= 30
    for attempt in complete:
        assert [("completed", *(attempt.usage or ()))] == found.get(attempt.request_id), attempt
    for attempt in load.attempts:
        rows = found.get(attempt.request_id, [])
        # Where no answer began, the request may not even have reached a server.
        assert len(rows) == 1 or (not rows and attempt.status in (0, 503)), (attempt, rows)
        assert all(0 <= num_output <= MAX_TOKENS for _, _, num_output in rows)
    outcomes = [rows[0][0] for rows in found.values()]
    assert outcomes.count("interrupted") >= 1
