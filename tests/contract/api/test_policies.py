"""Policies on a live service with a real model: written over the management API, obeyed on every wire.

They are for one key alone, so that the other tests of this service do not meet them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest

from tests.contract.api.conftest import LiveService

PATIENCE_S = 20.0
HI = [{"role": "user", "content": "Say hello."}]
RECORDED = ("outcome", "error_code", "num_injected_tokens", "metadata", "hook_decisions")
RECORD = """
SELECT outcome, error_code, num_injected_tokens, metadata, hook_decisions FROM inference_generationrecord
WHERE request_id = %s
"""
WIRES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/chat/completions", {"messages": HI, "max_tokens": 8}),
    "completions": ("/completions", {"prompt": "Once upon", "max_tokens": 8}),
    "responses": ("/responses", {"input": "Say hello.", "max_output_tokens": 8}),
    "messages": ("/messages", {"messages": HI, "max_tokens": 8}),
}


@dataclass
class Policed:
    """A key and what is said about its requests."""

    service: LiveService
    manager: httpx.Client
    key: str
    key_id: int

    @contextmanager
    def policy(self, point: str, *actions: dict[str, Any], **members: Any) -> Iterator[None]:
        """In force while inside, in every process of the service."""
        body = {
            "name": f"live {time.time_ns()}",
            "point": point,
            "actions": list(actions),
            "mode": "enforce",
            "scope": {"key_ids": [self.key_id]},
            **members,
        }
        made = self.manager.post("/hook-policies", json=body)
        assert made.status_code == 201, made.text
        self._settle(body["name"])
        try:
            yield
        finally:
            gone = self.manager.delete(f"/hook-policies/{made.json()['id']}")
            assert gone.status_code in (200, 204), gone.text

    def _settle(self, name: str) -> None:
        """Wait until the policy is asked: the metrics then say so."""
        deadline_ts = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_ts:
            self.ask("chat", max_tokens=20, ignore_eos=True)
            metrics = httpx.get(f"{self.service.url}/metrics", timeout=10).text
            if f'policy="{name}"' in metrics:
                return
            time.sleep(0.2)
        raise AssertionError(f"the policy {name} was not asked within {PATIENCE_S} s")

    def ask(self, wire: str, **fields: Any) -> httpx.Response:
        path, own = WIRES[wire]
        body = {"model": self.service.model, **own, **fields}
        return self.service.post(path, body, Authorization=f"Bearer {self.key}")

    def record(self, answer: httpx.Response) -> dict[str, Any]:
        """The record of the request that was answered so."""
        deadline_ts = time.monotonic() + PATIENCE_S
        with psycopg.connect(self.service.environment["DATABASE_URL"], autocommit=True) as connection:
            while time.monotonic() < deadline_ts:
                # A refusal does not wait until its record is safe.
                row = connection.execute(RECORD, [answer.headers["x-request-id"]]).fetchone()
                if row is not None:
                    return dict(zip(RECORDED, row, strict=True))
                time.sleep(0.05)
        raise AssertionError("there is no record of the request")


@pytest.fixture(scope="module")
def policed(live: LiveService) -> Iterator[Policed]:
    scopes = ("--scope", "policies", "--scope", "keys")
    made = live.manage(
        "api_key_create", "--user", "lawyer", "--name", f"law {time.time_ns()}", *scopes, "--json"
    )
    own = live.manage("api_key_create", "--user", "ruled", "--name", f"ruled {time.time_ns()}", "--json")
    headers = {"Authorization": f"Bearer {json.loads(made)['key']}"}
    with httpx.Client(base_url=f"{live.url}/api", headers=headers, timeout=30) as manager:
        key = json.loads(own)
        yield Policed(live, manager, key["key"], key["id"])


def text_of(wire: str, answer: httpx.Response) -> str:
    body = answer.json()
    if wire == "chat":
        return body["choices"][0]["message"]["content"]
    if wire == "completions":
        return body["choices"][0]["text"]
    if wire == "responses":
        return "".join([part["text"] for item in body["output"] for part in item["content"]])
    return "".join([block["text"] for block in body["content"]])


def test_a_denied_request_is_refused_on_every_wire_and_for_this_key_alone(policed: Policed) -> None:
    deny = {"type": "deny", "message": "Not on Mondays.", "status": 451, "code": "monday"}
    with policed.policy("before_chat_completion", deny, {"type": "tag", "name": "day", "value": "Monday"}):
        for wire in WIRES:
            for is_stream in (False, True):
                answer = policed.ask(wire, stream=is_stream)
                assert answer.status_code == 451, answer.text
                assert "Not on Mondays." in answer.text
        record = policed.record(policed.ask("chat"))
        assert policed.service.chat().status_code == 200
    assert (record["outcome"], record["error_code"]) == ("rejected", "permission_denied")
    assert record["metadata"] == {"policy:day": "Monday"}
    (decision,) = record["hook_decisions"]
    assert (decision["point"], decision["result"]) == ("before_chat_completion", "applied")


@pytest.mark.parametrize("wire", WIRES)
def test_text_that_is_put_in_leads_the_answer(policed: Policed, wire: str) -> None:
    for is_shown in (False, True):
        inject = {"type": "inject_text", "text": "The answer is: forty-two,", "is_shown": is_shown}
        with policed.policy("after_prefill", inject):
            answer = policed.ask(wire, temperature=0, max_tokens=8)
            stream = policed.ask(wire, temperature=0, max_tokens=8, stream=True)
            assert (answer.status_code, stream.status_code) == (200, 200)
            record = policed.record(answer)
        shown = text_of(wire, answer)
        assert shown.startswith("The answer is: forty-two,") is is_shown, shown
        assert ("forty-two," in stream.text) is is_shown
        (decision,) = record["hook_decisions"]
        assert decision["injected_tokens"] == record["num_injected_tokens"] > 3
        assert decision["discarded_tokens"] == 1
        assert answer.json()["usage"]["injected_tokens"] == record["num_injected_tokens"]


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_is_ended_as_a_whole_one(policed: Policed, wire: str) -> None:
    say = {"type": "inject_text", "text": "I am not sure.", "is_shown": True}
    for reason, words in (
        ("stop", {"stop", "completed", "end_turn"}),
        ("content_filter", {"content_filter", "refusal"}),
    ):
        stop = {"type": "stop_generation", "reason": reason}
        with policed.policy("after_prefill", say, stop):
            answer = policed.ask(wire)
            stream = policed.ask(wire, stream=True)
        assert text_of(wire, answer) == "I am not sure."
        assert "I am not sure." in stream.text
        for one in (answer.text, stream.text):
            assert any(f'"{word}"' in one for word in words), one


def test_each_choice_is_ruled_by_itself(policed: Policed) -> None:
    stop = {"type": "stop_generation", "reason": "stop"}
    window = {"window_tokens": 4, "min_decoded": 4, "min_between": 4, "every_tokens": 4}
    asked = {"n": 2, "max_tokens": 40, "ignore_eos": True}
    with policed.policy("mid_generation", stop, window=window):
        answer = policed.ask("chat", **asked)
        stream = policed.ask("chat", **asked, stream=True)
        record = policed.record(answer)
    assert [choice["finish_reason"] for choice in answer.json()["choices"]] == ["stop", "stop"]
    # The token at which they were ended is in neither.
    assert answer.json()["usage"]["completion_tokens"] == 6
    assert sorted(decision["choice"] for decision in record["hook_decisions"]) == [0, 1]
    assert stream.text.count('"finish_reason":"stop"') == 2


def test_what_runs_is_denied_in_its_stream(policed: Policed) -> None:
    deny = {"type": "deny", "message": "Enough of this.", "status": 403}
    with policed.policy("mid_generation", deny, window={"min_decoded": 4, "every_tokens": 4}):
        answer = policed.ask("chat", max_tokens=40, ignore_eos=True)
        stream = policed.ask("chat", max_tokens=40, ignore_eos=True, stream=True)
        record = policed.record(stream)
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, "Enough of this.")
    assert stream.status_code == 200
    assert "Enough of this." in stream.text
    assert stream.text.endswith("data: [DONE]\n\n")
    assert record["outcome"] == "rejected"


def test_what_is_asked_is_changed_before_the_model_sees_it(policed: Policed) -> None:
    clamp = {"type": "clamp_parameter", "name": "max_tokens", "maximum": 3}
    capsule = {"type": "capsule_marker", "capsule_id": "capsule-7"}
    with policed.policy("before_chat_completion", clamp, capsule):
        for wire in WIRES:
            answer = policed.ask(wire, ignore_eos=True) if wire != "messages" else policed.ask(wire)
            usage = answer.json()["usage"]
            assert usage.get("completion_tokens", usage.get("output_tokens")) <= 3
            assert answer.headers["x-capsule-id"] == "capsule-7"
            assert answer.headers["x-capsule-nonce-origin"] == "frontend"
            assert "x-capsule-id" not in policed.ask(wire, stream=True).headers


def test_nothing_is_held_behind_all_this(policed: Policed) -> None:
    deadline_ts = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_ts:
        statistics = policed.service.statistics()
        if not statistics["engine"]["num_held"] and not statistics["admission"]["num_granted"]:
            return
        time.sleep(0.05)
    raise AssertionError(statistics)
