from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from skippy_site.servers.answering import run_application

SCOPE: dict[str, Any] = {"type": "http", "path": "/x", "headers": []}
START = {"type": "http.response.start", "status": 200, "headers": []}
END = {"type": "http.response.body", "body": b"", "more_body": False}


class FakeExchange:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.is_gone = False
        self.is_broken_off = False

    @property
    def is_started(self) -> bool:
        return bool(self.sent)

    @property
    def is_complete(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    async def receive(self) -> Any:
        await asyncio.sleep(3600)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def break_off(self) -> None:
        self.is_broken_off = True


async def fails(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("secret")


async def fails_late(scope: Any, receive: Any, send: Any) -> None:
    await send(START)
    raise RuntimeError("secret")


async def says_nothing(scope: Any, receive: Any, send: Any) -> None:
    return


async def stops_halfway(scope: Any, receive: Any, send: Any) -> None:
    await send(START)


async def waits(scope: Any, receive: Any, send: Any) -> None:
    await receive()


async def completes_and_fails(scope: Any, receive: Any, send: Any) -> None:
    await send(START)
    await send(END)
    raise RuntimeError("too late to matter")


@pytest.mark.parametrize("application", [fails, says_nothing])
async def test_no_answer_becomes_a_500(application: Any) -> None:
    exchange = FakeExchange()
    await run_application(application, SCOPE, exchange)
    assert exchange.sent[0]["status"] == 500
    assert orjson.loads(exchange.sent[1]["body"])["error"]["type"] == "server_error"
    assert b"secret" not in exchange.sent[1]["body"]


@pytest.mark.parametrize("application", [fails_late, stops_halfway])
async def test_half_an_answer_is_broken_off(application: Any) -> None:
    exchange = FakeExchange()
    await run_application(application, SCOPE, exchange)
    assert exchange.is_broken_off
    assert len(exchange.sent) == 1


@pytest.mark.parametrize("application", [fails, says_nothing])
async def test_nothing_is_sent_to_a_client_that_left(application: Any) -> None:
    exchange = FakeExchange()
    exchange.is_gone = True
    await run_application(application, SCOPE, exchange)
    assert exchange.sent == []
    assert not exchange.is_broken_off


async def test_a_complete_answer_stands() -> None:
    exchange = FakeExchange()
    await run_application(completes_and_fails, SCOPE, exchange)
    assert exchange.sent == [START, END]


async def test_cancelled_before_its_answer_it_says_503() -> None:
    exchange = FakeExchange()
    task = asyncio.create_task(run_application(waits, SCOPE, exchange))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert exchange.sent[0]["status"] == 503
    assert (b"retry-after", b"5") in exchange.sent[0]["headers"]
