"""Policies that ask webhooks, on a live service: made over the management API, obeyed a moment later."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.contract.api.conftest import LiveService

SECRET = "a-secret-of-some-length"
# Policies look for it, so that they concern no other test's requests.
MARK = "webhook-contract"


class Receiver(ThreadingHTTPServer):
    """Does what the text of a call asks for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: list[dict[str, Any]] = []
        self.go_on = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append(call)
        if "please hang" in call["text"]:
            self.server.go_on.wait(60)
        actions = [{"type": "deny", "message": "Ask a person."}] if "please deny" in call["text"] else []
        body = b"{[" if "please babble" in call["text"] else json.dumps({"actions": actions}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.go_on.set()
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def keeper(live: LiveService) -> Iterator[httpx.Client]:
    """Who may change policies; they are gone afterwards."""
    made = live.manage(
        "api_key_create", "--user", "operator", "--name", "keeper", "--scope", "policies", "--json"
    )
    headers = {"Authorization": f"Bearer {json.loads(made)['key']}"}
    with httpx.Client(base_url=f"{live.url}/api", headers=headers, timeout=30) as client:
        yield client
        for kind in ("hook-policies", "webhooks"):
            for row in client.get(f"/{kind}").json()["data"]:
                assert client.delete(f"/{kind}/{row['id']}").status_code == 204


def made_policy(keeper: httpx.Client, receiver: Receiver, **fields: Any) -> None:
    webhook = keeper.post(
        "/webhooks",
        json={
            "name": "review",
            "url": f"http://127.0.0.1:{receiver.server_port}/",
            "secret": SECRET,
            "parts": ["text", "signals"],
            "actions": ["deny"],
            "allows_private": True,
            "deadline_s": 30,
        },
    )
    assert webhook.status_code == 201, webhook.text
    policy = keeper.post(
        "/hook-policies",
        json={
            "name": "ask",
            "mode": "enforce",
            "point": "before_chat_completion",
            "condition": f"text.input.contains('{MARK}')",
            "actions": [{"type": "call_webhook", "webhook_id": webhook.json()["id"]}],
            "deadline_s": 30,
            **fields,
        },
    )
    assert policy.status_code == 201, policy.text


def until_called(live: LiveService, receiver: Receiver) -> None:
    """The policy has reached the process that serves."""
    deadline_ts = time.monotonic() + 60
    while not receiver.calls:
        assert time.monotonic() < deadline_ts
        assert live.chat(f"{MARK}: hello", max_tokens=1).status_code == 200
        time.sleep(0.1)


def test_a_webhook_denies_and_others_pass(
    live: LiveService, keeper: httpx.Client, receiver: Receiver
) -> None:
    made_policy(keeper, receiver)
    until_called(live, receiver)
    num_calls = len(receiver.calls)

    for stream in (False, True):
        denied = live.chat(f"{MARK}: please deny", stream=stream)
        assert denied.status_code == 403
        assert denied.json()["error"]["message"] == "Ask a person."
        assert denied.json()["error"]["code"] == "permission_denied"
    assert live.chat(f"{MARK}: hello").status_code == 200
    assert len(receiver.calls) == num_calls + 3
    assert live.chat("please deny, but nobody is asked").status_code == 200
    assert len(receiver.calls) == num_calls + 3
    last = receiver.calls[-1]
    assert last["policy"]["name"] == "ask"
    assert last["request"]["endpoint"] == "chat.completions"
    assert "caller" not in last and "messages" not in last
    metrics = httpx.get(f"{live.url}/metrics", timeout=30).text
    assert 'skippy_webhook_calls_total{outcome="answered",webhook="review"}' in metrics
    assert SECRET not in live.log.read_text()


@pytest.mark.parametrize(("rule", "status"), [("closed", 503), ("open", 200)])
def test_a_bad_webhook_harms_its_own_requests_by_the_rule_of_its_policy(
    live: LiveService, keeper: httpx.Client, receiver: Receiver, rule: str, status: int
) -> None:
    made_policy(keeper, receiver, on_failure=rule, deadline_s=6)
    until_called(live, receiver)
    num_calls = len(receiver.calls)

    assert live.chat(f"{MARK}: please babble").status_code == status
    with ThreadPoolExecutor(1) as thread:
        hanging = thread.submit(live.chat, f"{MARK}: please hang")
        while len(receiver.calls) < num_calls + 2:
            time.sleep(0.01)
        assert live.chat("hello").status_code == 200
        assert live.chat(f"{MARK}: hello").status_code == 200
        assert hanging.result().status_code == status


def test_the_sequence_waits_for_what_is_asked_behind_its_prompt(
    live: LiveService, keeper: httpx.Client, receiver: Receiver
) -> None:
    made_policy(keeper, receiver, point="after_prefill")
    until_called(live, receiver)
    num_calls = len(receiver.calls)

    with ThreadPoolExecutor(1) as thread:
        hanging = thread.submit(live.chat, f"{MARK}: please hang", max_tokens=4)
        while len(receiver.calls) == num_calls:
            time.sleep(0.01)
        assert live.chat("hello").status_code == 200
        assert not hanging.done()
        receiver.go_on.set()
        answer = hanging.result()
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] >= 1
    assert receiver.calls[-1]["signals"]["entropy"] >= 0
    denied = live.chat(f"{MARK}: please deny")
    assert denied.status_code == 403
