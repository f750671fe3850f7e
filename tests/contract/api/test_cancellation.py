"""An operator ends requests of a live service, running and waiting, by API and by command."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx
import pytest

from tests.contract.api.conftest import LiveService
from tests.contract.api.test_management import manager_of


def until(condition: Any, patience_s: float = 30.0) -> Any:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize("door", ["api", "command"])
@pytest.mark.parametrize("is_stream", [True, False])
def test_a_running_request_is_ended_and_leaves_nothing(live: LiveService, is_stream: bool, door: str) -> None:
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        answer = live.chat("Count to ten thousand.", stream=is_stream, max_tokens=4000, ignore_eos=True)
        answers.append((answer.status_code, answer.text))

    client = threading.Thread(target=ask)
    client.start()
    with manager_of(live) as manager:

        def running() -> Any:
            found = manager.get("/requests").json()["data"]
            return [one for one in found if one["num_output_tokens"] > 5]

        (told,) = until(running)
        assert (told["username"], told["endpoint"], told["phase"]) == ("ada", "chat.completions", "decoding")
        if door == "api":
            ended = manager.post(f"/requests/{told['record_id']}/cancel", json={})
            assert ended.status_code == 200, ended.text
        else:
            live.manage("request_cancel", told["record_id"])
        client.join(30)
        (status, text) = answers[0]
        if is_stream:
            events = [line[6:] for line in text.split("\n\n") if line.startswith("data: ")]
            assert (status, events[-1]) == (200, "[DONE]")
            assert json.loads(events[-2])["error"]["code"] == "request_cancelled"
        else:
            assert (status, json.loads(text)["error"]["code"]) == (499, "request_cancelled")
        until(lambda: live.statistics()["engine"]["lanes"]["num_used"] == 0)
        record = until(
            lambda: [row for row in manager.get("/records").json()["data"] if row["id"] == told["record_id"]]
        )
        assert (record[0]["outcome"], record[0]["error_code"]) == ("cancelled", "request_cancelled")
        assert record[0]["num_output_tokens"] >= 1
        change = manager.get("/changes", params={"subject_kind": "request"}).json()["data"][0]
        assert (change["subject_label"], change["door"]) == (told["record_id"], door)
        gone = manager.post(f"/requests/{told['record_id']}/cancel", json={})
        assert gone.status_code == 404
    live.alive()


def test_one_that_waits_is_ended_before_it_starts(live: LiveService) -> None:
    stop = threading.Event()
    num_lanes = live.statistics()["engine"]["lanes"]["num_lanes"]

    def fill() -> None:
        body = {"model": live.model, "prompt": "x", "max_tokens": 4000, "stream": True, "ignore_eos": True}
        with httpx.stream(
            "POST", f"{live.url}/v1/completions", json=body, headers=live.auth, timeout=60
        ) as answer:
            for _ in answer.iter_lines():
                if stop.is_set():
                    return

    fillers = [threading.Thread(target=fill) for _ in range(num_lanes)]
    for filler in fillers:
        filler.start()
    try:
        with manager_of(live) as manager:
            until(lambda: live.statistics()["engine"]["lanes"]["num_used"] == num_lanes)
            answers: list[httpx.Response] = []
            waiter = threading.Thread(target=lambda: answers.append(live.chat()))
            waiter.start()
            (told,) = until(
                lambda: [one for one in manager.get("/requests").json()["data"] if one["phase"] == "waiting"]
            )
            assert manager.post(f"/requests/{told['record_id']}/cancel", json={}).status_code == 200
            waiter.join(30)
            assert (answers[0].status_code, answers[0].json()["error"]["code"]) == (499, "request_cancelled")
    finally:
        stop.set()
        for filler in fillers:
            filler.join(30)
    until(lambda: live.statistics()["engine"]["lanes"]["num_used"] == 0)
