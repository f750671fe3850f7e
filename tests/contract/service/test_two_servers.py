"""Two whole services on one database: what one of them lets in, the other one counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from skippy_site.state import CHECKOUT
from skippy_site.supervisor.discovery import embedded_urls
from tests.integration.supervisor.running_service import RunningService
from tests.model.tiny_model import write_tiny_model
from tests.model_files import default_model_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

NUM_REQUESTS = 20
LIMIT = 200


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningService, RunningService]]:
    folder: Path = tmp_path_factory.mktemp("two")
    model = write_tiny_model(default_model_path(), folder / "tiny.gguf")
    settings = {"SKIPPY_MODEL": str(model), "SKIPPY_MODEL_ID": "tiny", "SKIPPY_DRAIN_GRACE_S": "5"}
    services = [RunningService(folder / "one", environment=settings, arguments=("manage.py", "serve"))]
    try:
        urls = embedded_urls(services[0].start().state)
        shared = {"DATABASE_URL": urls.database_url, "REDIS_URL": urls.redis_url}
        services.append(
            RunningService(
                folder / "two", environment=settings | shared, arguments=("manage.py", "serve")
            ).start()
        )
        yield services[0], services[1]
        assert [service.stop(limit_s=60) for service in reversed(services)] == [0, 0]
    finally:
        for service in reversed(services):
            service.close()


def key_with(service: RunningService, *options: str) -> str:
    made = subprocess.run(
        [sys.executable, "manage.py", "api_key_create", "--user", "ada", "--name", "k", "--json", *options],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "SKIPPY_HOME": str(service.state.root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(made.stdout)["key"])


def ask_all(services: tuple[RunningService, ...], key: str, *, max_tokens: int) -> list[httpx.Response]:
    """So many at once, in turn from each of the services."""

    def ask(number: int) -> httpx.Response:
        return httpx.post(
            f"http://127.0.0.1:{services[number % len(services)].port}/v1/completions",
            json={"model": "tiny", "prompt": "count", "max_tokens": max_tokens, "ignore_eos": True},
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
        )

    with ThreadPoolExecutor(NUM_REQUESTS) as threads:
        return list(threads.map(ask, range(NUM_REQUESTS)))


def test_of_twenty_at_once_at_most_one_goes_over_the_line_whichever_server_it_asks(services) -> None:
    key = key_with(services[0], "--max-tokens-per-minute", str(LIMIT))

    answers = ask_all(services, key, max_tokens=60)

    used = [answer.json()["usage"]["total_tokens"] for answer in answers if answer.status_code == 200]
    assert len(used) >= 2
    assert sum(used) - max(used) <= LIMIT
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} == {429}
    assert {answer.json()["error"]["code"] for answer in refused} == {"rate_limit_exceeded"}


def test_requests_of_a_minute_are_counted_together(services) -> None:
    key = key_with(services[1], "--max-requests-per-minute", "7")

    answers = ask_all(services, key, max_tokens=1)

    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [429] * 13
    left = [
        int(answer.headers["x-ratelimit-remaining-requests"])
        for answer in answers
        if answer.status_code == 200
    ]
    # Those that were counted in one transaction are all told what was left after it.
    assert min(left) == 0, "whichever server it asked, the last one is told that nothing is left"
    assert max(left) <= 6, "nobody is told more than was left after it"


def test_both_have_the_records_of_both(services) -> None:
    key = key_with(services[0])
    answers = ask_all(services, key, max_tokens=3)
    assert {answer.status_code for answer in answers} == {200}
    wanted = sum(answer.json()["usage"]["total_tokens"] for answer in answers)

    for service in services:
        told = httpx.get(
            f"http://127.0.0.1:{service.port}/v1/usage",
            headers={"Authorization": f"Bearer {key}"},
            timeout=20,
        ).json()
        assert (told["requests"], told["total_tokens"]) == (NUM_REQUESTS, wanted)


def test_a_policy_written_at_one_of_them_is_obeyed_by_both_within_five_seconds(services) -> None:
    key = key_with(services[0], "--scope", "inference", "--scope", "policies")

    def call(service: RunningService, method: str, path: str, body: dict[str, object]) -> httpx.Response:
        return httpx.request(
            method,
            f"http://127.0.0.1:{service.port}{path}",
            json=body,
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
        )

    def until_both_answer(status: int) -> None:
        """Asked again and again; the last request that may get another answer begins after 5 s."""
        deadline_ts = time.monotonic() + 5
        asked = {"model": "tiny", "prompt": "a forbidden word", "max_tokens": 1}
        for service in services:
            while True:
                began_ts = time.monotonic()
                answer = call(service, "POST", "/v1/completions", asked)
                if answer.status_code == status:
                    break
                assert began_ts < deadline_ts, answer.text
                time.sleep(0.05)

    until_both_answer(200)
    written = call(
        services[0],
        "POST",
        "/api/hook-policies",
        {
            "name": "no such word",
            "point": "before_chat_completion",
            "condition": 'has_word(text.folded, "forbidden")',
            "actions": [{"type": "deny", "message": "Not here.", "status": 451}],
            "mode": "enforce",
        },
    )
    assert written.status_code == 201, written.text
    until_both_answer(451)
    path = f"/api/hook-policies/{written.json()['id']}"
    assert call(services[1], "PATCH", path, {"mode": "off"}).status_code == 200
    until_both_answer(200)
    assert call(services[1], "DELETE", path, {}).status_code == 204
