"""Readers that stall and clients that leave, on the wire: nothing stays behind, and the others go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.api.conftest import LiveService, start_service, stop_service
from tests.contract.api.raw_clients import connect, held, memory_bytes, num_connections, request_bytes
from tests.model.tiny_model import write_tiny_model
from tests.model_files import default_model_path

pytestmark = pytest.mark.timeout(150)
STALL_S = 2.0
NUM_LEAVING, NUM_STALLED, NUM_AT_ONCE = 500, 50, 40


@pytest.fixture(scope="module", params=["daphne", "uvicorn"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """With a model that takes a millisecond a step, and a key with session trust."""
    home = tmp_path_factory.mktemp(f"lost-{request.param}")
    model = write_tiny_model(default_model_path(), home / "tiny.gguf")
    made = start_service(
        home,
        request.param,
        SKIPPY_MODEL_PATH=str(model),
        SKIPPY_LANES="8",
        SKIPPY_CONTEXT="65536",
        SKIPPY_THREADS="1",
        SKIPPY_STALL_TIMEOUT_S=str(STALL_S),
        SKIPPY_ADMISSION_TIMEOUT_S="0",  # nobody is refused for a wait that is predicted
        SKIPPY_SESSION_HEADER="X-Agent-Session",
    )
    arguments = ("--user", "agent", "--name", "trusted", "--session-trust", "--json")
    made.key = json.loads(made.manage("api_key_create", *arguments))["key"]
    yield made
    stop_service(made)


async def until(condition: Callable[[], bool], *, patience_s: float, what: Callable[[], object]) -> float:
    """Wait in the test, not on its loop; the seconds that it took."""
    began_ts = time.monotonic()
    while not await asyncio.to_thread(condition):
        if time.monotonic() - began_ts > patience_s:
            raise AssertionError(f"not within {patience_s} s: {what()}")
        await asyncio.sleep(0.05)
    return time.monotonic() - began_ts


def num_stalled(service: LiveService) -> int:
    return service.log.read_text().count("code=receiver_stalled")


def is_free(service: LiveService) -> bool:
    return not any(held(service).values())


async def test_a_reader_that_stops_costs_its_lane_for_the_limit_and_nothing_else(
    service: LiveService,
) -> None:
    await asyncio.to_thread(service.alive)
    await until(lambda: num_connections(service) == 0, patience_s=10, what=lambda: num_connections(service))
    memory_before, num_stalled_before = memory_bytes(service), num_stalled(service)
    clients = [await connect(service, receive_buffer_bytes=4096) for _ in range(4)]
    loop = asyncio.get_running_loop()
    for client in clients:
        await loop.sock_sendall(client, request_bytes(service, stream=True, max_tokens=7000))

    await until(lambda: held(service)["held sequences"] == 4, patience_s=15, what=lambda: held(service))
    # The lanes and cells are kept, the batch goes on: somebody else is served meanwhile.
    assert held(service)["lanes"] == 4
    other = await asyncio.to_thread(service.chat, max_tokens=50)
    assert other.status_code == 200
    took_s = await until(lambda: is_free(service), patience_s=STALL_S + 3, what=lambda: held(service))

    assert took_s < STALL_S + 3
    await until(lambda: num_connections(service) == 0, patience_s=2, what=lambda: num_connections(service))
    assert memory_bytes(service) - memory_before < 16_000_000
    for client in clients:
        client.close()
    log = service.log.read_text()
    assert log.count("code=receiver_stalled") == log.count('"skippy.stream.outcome": "receiver_stalled"')
    assert num_stalled(service) - num_stalled_before == 4


async def test_a_slow_reader_is_held_and_resumed_and_gets_everything(service: LiveService) -> None:
    client = await connect(service, receive_buffer_bytes=4096)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, request_bytes(service, stream=True, max_tokens=3000))
    received = b""
    was_held = False
    while not received.endswith(b"0\r\n\r\n"):
        if not was_held:
            await until(
                lambda: held(service)["held sequences"] == 1, patience_s=15, what=lambda: held(service)
            )
            was_held = True
        part = await asyncio.wait_for(loop.sock_recv(client, 65536), 20)
        assert part, received[-200:]
        received += part
    client.close()

    assert b"data: [DONE]" in received
    assert received.count(b'"delta"') >= 1000
    assert b'"error"' not in received


async def leave(service: LiveService, chance: random.Random) -> None:
    """One client that goes away at a moment that nobody chose."""
    loop = asyncio.get_running_loop()
    sessions = ["", "", "X-Agent-Session: one\r\n", "X-Agent-Session: two\r\n"]
    request = request_bytes(
        service,
        stream=chance.random() < 0.6,
        headers=chance.choice(sessions),
        max_tokens=chance.choice([1, 20, 4000]),
        messages=[{"role": "user", "content": "story " * chance.choice([1, 100, 1500])}],
    )
    client = await connect(service)
    try:
        cut = len(request) if chance.random() < 0.9 else chance.randrange(len(request))
        await loop.sock_sendall(client, request[:cut])
        patience_s = chance.choice([0.0, 0.0, 0.01, 0.1, 0.5, 1.0])
        if chance.random() < 0.5:
            await asyncio.sleep(patience_s)
        else:
            async with asyncio.timeout(patience_s):
                while await loop.sock_recv(client, 65536):
                    pass
    except (TimeoutError, ConnectionError):
        pass
    finally:
        client.close()


async def stall(service: LiveService) -> bool:
    """One client that reads nothing and stays until it is thrown out; False where it was refused."""
    loop = asyncio.get_running_loop()
    client = await connect(service, receive_buffer_bytes=4096)
    await loop.sock_sendall(client, request_bytes(service, stream=True, max_tokens=6000))
    try:
        while True:
            await asyncio.sleep(0.1)
            client.getpeername()  # raises once the server has reset the connection
            with contextlib.suppress(BlockingIOError):
                status = client.recv(12, socket.MSG_PEEK)
                if status not in (b"", b"HTTP/1.1 200"):
                    return False
    except OSError:
        return True
    finally:
        client.close()


@pytest.mark.slow
async def test_five_hundred_clients_that_leave_and_fifty_that_stall_leave_nothing(
    service: LiveService,
) -> None:
    num_stalled_before = num_stalled(service)
    chance = random.Random(7)
    places = asyncio.Semaphore(NUM_AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await leave(service, random.Random(number))

    async def working() -> int:
        answers = [await asyncio.to_thread(service.chat, max_tokens=5) for _ in range(20)]
        return sum(answer.status_code == 200 for answer in answers)

    stalling = [asyncio.ensure_future(stall(service)) for _ in range(NUM_STALLED)]
    leaving = [one(number) for number in chance.sample(range(10_000), NUM_LEAVING)]
    num_served, *_ = await asyncio.gather(working(), *leaving)
    await asyncio.wait(stalling, timeout=60)
    num_thrown_out = sum([task.result() for task in stalling])
    assert num_thrown_out > NUM_STALLED // 2

    await until(lambda: is_free(service), patience_s=15, what=lambda: held(service))
    await until(lambda: num_connections(service) == 0, patience_s=5, what=lambda: num_connections(service))
    assert num_served > 0
    statistics = service.statistics()["engine"]
    assert statistics["cache"]["num_cells"] <= statistics["num_cells"] // 2
    log = service.log.read_text()
    assert "Traceback" not in log
    ids = re.findall(r"inference\.requests: (\S+) chat\.completions", log)
    assert len(ids) == len(set(ids)) > num_thrown_out, "a request has more than one record"
    assert num_stalled(service) - num_stalled_before == num_thrown_out
    await asyncio.to_thread(service.alive)


def test_the_log_names_no_session(service: LiveService) -> None:
    answer = service.post(
        "/chat/completions",
        {"model": service.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2},
        **{"X-Agent-Session": "private-session-name"},
    )

    assert answer.status_code == 200
    assert "private-session-name" not in Path(service.log).read_text()
