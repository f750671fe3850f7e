"""SIGTERM under load: whoever streams gets an ending, whoever waits an answer, and the exit code is 0."""

from __future__ import annotations

import concurrent.futures
import json
import signal
import threading
import time

import httpx
import pytest

from tests.contract.api.conftest import start_service, stop_service

pytestmark = pytest.mark.timeout(120)
NUM_STREAMING, NUM_QUEUED = 4, 10


def ask(service, begun: threading.Semaphore) -> tuple[int, str]:
    """Status and last SSE data (or the error's code) of one endless stream."""
    body = {
        "model": service.model,
        "stream": True,
        "max_tokens": 4000,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": "Tell a story."}],
    }
    last, error = "", ""
    with httpx.stream(
        "POST", f"{service.url}/v1/chat/completions", json=body, headers=service.auth, timeout=60
    ) as answer:
        if answer.status_code != 200:
            return answer.status_code, json.loads(answer.read())["error"]["code"]
        for number, line in enumerate(answer.iter_lines()):
            if number == 4:
                begun.release()
            if line.startswith("data: "):
                last = line[6:]
                if '"error"' in last:
                    error = json.loads(last)["error"]["code"]
    return answer.status_code, f"{error} {last}"


@pytest.mark.parametrize("server", ["daphne", "uvicorn"])
def test_streams_end_in_band_and_the_queue_is_answered_at_once(server, tmp_path):
    service = start_service(tmp_path, server, SKIPPY_LANES=str(NUM_STREAMING), SKIPPY_DRAIN_GRACE_S="1")
    begun = threading.Semaphore(0)
    with concurrent.futures.ThreadPoolExecutor(NUM_STREAMING + NUM_QUEUED) as pool:
        asked = [pool.submit(ask, service, begun) for _ in range(NUM_STREAMING + NUM_QUEUED)]
        for _ in range(NUM_STREAMING):
            assert begun.acquire(timeout=60)
        while service.statistics()["admission"]["queue"]["num_waiting"] < NUM_QUEUED:
            time.sleep(0.05)

        service.process.send_signal(signal.SIGTERM)
        answers = [each.result(timeout=60) for each in asked]

    streamed = [said for status, said in answers if status == 200]
    refused = [said for status, said in answers if status == 503]
    assert streamed == ["service_unavailable [DONE]"] * NUM_STREAMING
    assert refused == ["service_unavailable"] * NUM_QUEUED
    service.process.wait(30)
    stop_service(service)
