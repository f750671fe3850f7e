"""A client may leave in any phase of its request; within a step nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.contract.api.conftest import LiveService, start_service, stop_service
from tests.contract.api.raw_clients import connect, held, num_connections, request_bytes
from tests.model.tiny_model import write_tiny_model
from tests.model_files import default_model_path

pytestmark = pytest.mark.timeout(120)
SESSION = "X-Agent-Session: one\r\n"
PATIENCE_S = 10.0


@pytest.fixture(params=["daphne", "uvicorn"], scope="module")
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """One lane, so that whoever comes second waits."""
    home = tmp_path_factory.mktemp(f"phases-{request.param}")
    made = start_tiny(
        home, request.param, SKIPPY_LANES="1", SKIPPY_EARLY_HEADERS_S="0.4", SKIPPY_KEEP_ALIVE_S="0.4"
    )
    yield made
    stop_service(made)


def start_tiny(home, server: str, **settings: str) -> LiveService:
    made = start_service(
        home,
        server,
        SKIPPY_MODEL_PATH=str(write_tiny_model(default_model_path(), home / "tiny.gguf")),
        SKIPPY_THREADS="1",
        SKIPPY_CONTEXT="32768",
        SKIPPY_SESSION_HEADER="X-Agent-Session",
        **settings,
    )
    arguments = ("--user", "agent", "--name", "trusted", "--session-trust", "--json")
    made.key = json.loads(made.manage("api_key_create", *arguments))["key"]
    return made


def until(condition, *, what, patience_s: float = PATIENCE_S) -> None:
    deadline_ts = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline_ts, what()
        time.sleep(0.02)


def send(service: LiveService, *, receive_buffer_bytes: int | None = None, **fields: object) -> socket.socket:
    client = asyncio.run(connect(service, receive_buffer_bytes=receive_buffer_bytes))
    client.setblocking(True)
    client.sendall(request_bytes(service, **fields))
    return client


def shows(service: LiveService, **numbers: int) -> bool:
    found = held(service)
    return all(found[name.replace("_", " ")] == number for name, number in numbers.items())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("phase", ["session", "queued", "prefilling", "decoding", "held"])
def test_whoever_leaves_frees_everything_in_every_phase(
    service: LiveService, phase: str, stream: bool
) -> None:
    if phase == "held" and not stream:
        pytest.skip("a whole answer has no reader to wait for")
    others = []
    if phase in ("session", "queued"):
        others.append(send(service, stream=True, headers=SESSION, receive_buffer_bytes=4096))
        until(lambda: shows(service, lanes=1), what=lambda: held(service))
    headers = SESSION if phase != "queued" else "X-Agent-Session: two\r\n"
    content = "story " * (6000 if phase == "prefilling" else 3)
    client = send(
        service,
        stream=stream,
        headers=headers,
        max_tokens=1500 if phase == "prefilling" else 7000,
        messages=[{"role": "user", "content": content}],
        receive_buffer_bytes=4096,
    )
    expected = {
        "session": {"waiting_for_a_session": 1, "waiting": 0},
        "queued": {"waiting": 1, "sessions": 2},
        "prefilling": {"lanes": 1, "sessions": 1},
        "decoding": {"lanes": 1, "sessions": 1},
        "held": {"held_sequences": 1, "lanes": 1, "sessions": 1},
    }[phase]
    until(lambda: shows(service, **expected), what=lambda: held(service))

    client.close()

    if others:
        until(
            lambda: shows(service, waiting=0, waiting_for_a_session=0, sessions=1, granted=1),
            what=lambda: held(service),
            patience_s=1.0,
        )
        others[0].close()
    until(lambda: not any(held(service).values()), what=lambda: held(service), patience_s=1.0)
    until(lambda: num_connections(service) == 0, what=lambda: num_connections(service), patience_s=2.0)


def test_the_next_of_a_session_has_its_turn_when_the_one_before_is_done(service: LiveService) -> None:
    def ask() -> float:
        answer = service.post(
            "/chat/completions",
            {
                "model": service.model,
                "messages": [{"role": "user", "content": "hi"}],
                "max_tokens": 30,
                "ignore_eos": True,
            },
            **{"X-Agent-Session": "turns"},
        )
        assert answer.status_code == 200
        return answer.json()["timings"]["queue_wait_ms"]

    async def all_at_once() -> list[float]:
        return await asyncio.gather(*[asyncio.to_thread(ask) for _ in range(6)])

    waits = asyncio.run(all_at_once())

    assert sum(wait > 5 for wait in waits) >= 4
    assert not any(held(service).values())


def test_a_stream_that_waits_has_its_headers_early_and_signs_of_life(service: LiveService) -> None:
    first = send(service, stream=True, max_tokens=7000, receive_buffer_bytes=4096)
    until(lambda: shows(service, held_sequences=1), what=lambda: held(service))
    second = send(service, stream=True, max_tokens=3)
    second.settimeout(5)
    received = b""
    while received.count(b": keep-alive\n\n") < 2:
        received += second.recv(65536)
    assert received.startswith(b"HTTP/1.1 200")
    assert shows(service, waiting=1)

    first.close()
    while b"data: [DONE]" not in received:
        part = second.recv(65536)
        assert part, received
        received += part
    second.close()

    assert b'"role":"assistant"' in received
    until(lambda: not any(held(service).values()), what=lambda: held(service), patience_s=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["daphne", "uvicorn"])
def test_a_drain_ends_waiting_sessions_stalled_readers_and_itself(server: str, tmp_path) -> None:
    service = start_tiny(
        tmp_path, server, SKIPPY_LANES="2", SKIPPY_DRAIN_GRACE_S="1.5", SKIPPY_STALL_TIMEOUT_S="30"
    )
    stalled = send(service, stream=True, max_tokens=7000, headers=SESSION, receive_buffer_bytes=4096)
    until(lambda: shows(service, held_sequences=1), what=lambda: held(service))
    waiting = send(service, stream=True, headers=SESSION)
    until(lambda: shows(service, waiting_for_a_session=1), what=lambda: held(service))

    service.process.send_signal(signal.SIGTERM)
    waiting.settimeout(5)
    answer = waiting.recv(65536)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after" in answer.lower()
    red = httpx.get(f"{service.url}/readyz", timeout=5)
    assert red.status_code == 503

    began_ts = time.monotonic()
    stop_service(service)  # exit code 0, and no traceback
    assert time.monotonic() - began_ts < 15
    stalled.close()
    waiting.close()
