"""Limits as the official client sees them, on both servers, with a real database behind."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.contract.api.conftest import LiveService

HEADERS = [
    f"x-ratelimit-{what}-{name}"
    for name in ("requests", "tokens")
    for what in ("limit", "remaining", "reset")
]


def key_with(live: LiveService, *options: str, user: str = "ada") -> str:
    made = live.manage("api_key_create", "--user", user, "--name", "limited", "--json", *options)
    return str(json.loads(made)["key"])


def chat(client: openai.OpenAI, live: LiveService, text: str = "hi", **fields: Any) -> Any:
    fields.setdefault("max_tokens", 4)
    messages: Any = [{"role": "user", "content": text}]
    return client.chat.completions.with_raw_response.create(model=live.model, messages=messages, **fields)


@pytest.mark.parametrize("is_stream", [False, True])
def test_every_authenticated_answer_has_the_six_headers(live: LiveService, is_stream: bool) -> None:
    client = live.client(api_key=key_with(live, "--max-requests-per-minute", "50"))
    answer = chat(client, live, stream=is_stream)
    assert all(answer.headers.get(name) for name in HEADERS)
    assert (
        answer.headers["x-ratelimit-limit-requests"],
        answer.headers["x-ratelimit-remaining-requests"],
    ) == (
        "50",
        "49",
    )
    assert answer.headers["x-ratelimit-limit-tokens"] == "1000000"
    if is_stream:
        for _ in answer.parse():
            pass
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("none")
    assert all(caught.value.response.headers.get(name) for name in HEADERS)
    assert live.post("/chat/completions", b"{").headers["x-ratelimit-limit-requests"] == "1000000"


def test_waiting_helps_with_a_rate_and_not_with_a_budget(live: LiveService) -> None:
    client = live.client(api_key=key_with(live, "--max-requests-per-minute", "1"))
    chat(client, live)
    with pytest.raises(openai.RateLimitError) as caught:
        chat(client, live)
    assert caught.value.code == "rate_limit_exceeded"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 61
    client = live.client(api_key=key_with(live, "--max-tokens-per-month", "0"), timeout=20)
    client.max_retries = 2
    began = time.monotonic()
    with pytest.raises(openai.RateLimitError) as caught:
        chat(client, live, stream=True)
    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - began < 5, "the client was told not to try again"


@pytest.mark.parametrize("is_stream", [False, True])
def test_of_twenty_at_once_at_most_one_goes_over_the_line(live: LiveService, is_stream: bool) -> None:
    key = key_with(live, "--max-tokens-per-minute", "200")

    def ask(_: int) -> tuple[int, int]:
        body: dict[str, Any] = {
            "model": live.model,
            "messages": [{"role": "user", "content": "count to 40"}],
            "max_tokens": 60,
            "stream": is_stream,
        }
        if is_stream:
            body["stream_options"] = {"include_usage": True}
        answer = httpx.post(
            f"{live.url}/v1/chat/completions",
            json=body,
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
        )
        if answer.status_code != 200:
            assert answer.json()["error"]["code"] == "rate_limit_exceeded"
            assert int(answer.headers["retry-after"]) >= 1
            return answer.status_code, 0
        if not is_stream:
            return 200, answer.json()["usage"]["total_tokens"]
        data = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        return 200, data[-1]["usage"]["total_tokens"]

    with ThreadPoolExecutor(20) as threads:
        results = list(threads.map(ask, range(20)))
    assert {status for status, _ in results} == {200, 429}
    assert sum(used for _, used in results) <= 280


def test_a_budget_is_what_the_records_say_and_holds_for_twenty_at_once(live: LiveService) -> None:
    made = json.loads(
        live.manage("api_key_create", "--user", "ada", "--name", "b", "--json", "--max-tokens-per-day", "400")
    )

    def ask(number: int) -> int:
        body = {
            "model": live.model,
            "messages": [{"role": "user", "content": "count to 40"}],
            "max_tokens": 30,
            "stream": number % 2 == 0,
            "stream_options": {"include_usage": True} if number % 2 == 0 else None,
        }
        headers = {"Authorization": f"Bearer {made['key']}"}
        answer = httpx.post(f"{live.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
        if answer.status_code != 200:
            assert answer.json()["error"]["code"] == "insufficient_quota"
            return 0
        if number % 2:
            return int(answer.json()["usage"]["total_tokens"])
        data = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        return int(data[-1]["usage"]["total_tokens"])

    with ThreadPoolExecutor(20) as threads:
        used = sum(threads.map(ask, range(20)))
    used += sum(map(ask, range(20)))
    assert 300 < used <= 400, "none is over the line, and little of it is left"

    def budgets_used() -> list[int]:
        shown = json.loads(live.manage("limits", "--key", str(made["id"]), "--json"))["used"]
        assert shown["parallel_requests"] == 0
        return [shown[f"tokens_per_{period}"] for period in ("day", "week", "month")]

    assert budgets_used() == [used] * 3
    live.manage("limits_recount")
    assert budgets_used() == [used] * 3


def test_a_model_or_a_network_that_is_not_the_key_s(live: LiveService) -> None:
    client = live.client(api_key=key_with(live, "--allowed-models", "another"))
    assert client.models.list().data == []
    with pytest.raises(openai.NotFoundError) as missing:
        chat(client, live)
    assert missing.value.code == "model_not_found"
    client = live.client(api_key=key_with(live, "--allowed-networks", "203.0.113.0/24"))
    with pytest.raises(openai.PermissionDeniedError) as denied:
        chat(client, live)
    assert denied.value.code == "permission_denied"
    client = live.client(api_key=key_with(live, "--allowed-networks", "127.0.0.0/8"))
    chat(client, live)


def test_a_place_is_free_again_when_a_client_has_left(live: LiveService) -> None:
    key = key_with(live, "--max-parallel-requests", "1")
    headers = {"Authorization": f"Bearer {key}"}
    body = {
        "model": live.model,
        "messages": [{"role": "user", "content": "Tell a long story"}],
        "max_tokens": 400,
        "stream": True,
    }
    client = live.client(api_key=key)
    with httpx.stream(
        "POST", f"{live.url}/v1/chat/completions", json=body, headers=headers, timeout=60
    ) as one:
        lines = one.iter_lines()
        for _ in range(5):
            next(lines)
        with pytest.raises(openai.RateLimitError) as caught:
            chat(client, live)
        assert caught.value.code == "rate_limit_exceeded"
    deadline = time.monotonic() + 10
    while True:
        try:
            assert chat(client, live).status_code == 200
            break
        except openai.RateLimitError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_change_of_limits_reaches_the_server_within_seconds(live: LiveService) -> None:
    key = key_with(live, user="bob")
    client = live.client(api_key=key)
    chat(client, live)
    live.manage("limits", "--user", "bob", "--max-requests-per-minute", "0")
    deadline = time.monotonic() + 6
    while True:
        try:
            chat(client, live)
        except openai.RateLimitError:
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    live.manage("limits", "--user", "bob", "--max-requests-per-minute", "none")
