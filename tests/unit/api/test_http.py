from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from inference.api.http import HttpResponder
from inference.openai.sse import KEEP_ALIVE


class SlowServer:
    """Takes messages only while its gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.messages: list[dict[str, Any]] = []

    async def send(self, message: dict[str, Any]) -> None:
        await self.gate.wait()
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages if "body" in message]


@pytest.mark.parametrize(
    "begin", [HttpResponder.begin_stream, partial(HttpResponder.json, body=b"{}", status=429)]
)
async def test_a_comment_does_not_overtake_a_status_that_waits_for_its_turn(begin):
    server = SlowServer()
    respond = HttpResponder(server.send, "r")
    answer = asyncio.create_task(begin(respond))
    await asyncio.sleep(0)
    await asyncio.wait_for(respond.comment(), 5)
    assert server.messages == []
    server.gate.set()
    await answer
    assert server.messages[0]["type"] == "http.response.start"
    assert KEEP_ALIVE not in server.bodies


async def test_a_comment_brings_the_headers_where_nothing_was_said_and_none_after_the_end():
    server = SlowServer()
    server.gate.set()
    respond = HttpResponder(server.send, "r")
    await respond.comment(headers=((b"x-a", b"b"),))
    await respond.comment()
    await respond.end_stream(b"data: [DONE]\n\n")
    await respond.comment()
    assert [message["type"] for message in server.messages].count("http.response.start") == 1
    assert (b"x-a", b"b") in server.messages[0]["headers"]
    assert server.bodies[:2] == [KEEP_ALIVE, KEEP_ALIVE]
    assert len(server.bodies) == 3
