"""Cheap clients for benchmarks in which the server shares its cores with them.

An exchange is one request on a connection of its own. Nothing is parsed that is not asked for: the
status, Retry-After, when the first text came, and whether the answer was whole.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from dataclasses import dataclass, field
from typing import Any

from load import prompt
from servers import Server

TEXT = re.compile(rb'"delta":{"content":"[^"]')
RETRY_AFTER = re.compile(rb"\r\nretry-after: *(\d+)\r\n", re.IGNORECASE)
DONE = b"data: [DONE]"
IN_BAND_ERROR = b'data: {"error"'


@dataclass
class Exchange:
    """One request, and what its client saw. All times are of `time.monotonic`, which is the server's, too.

    `status` is 0 where none came. `first_text_ts` is the arrival of the first frame with text.
    """

    begin_ts: float
    status: int = 0
    status_ts: float | None = None
    first_text_ts: float | None = None
    end_ts: float | None = None
    retry_after_s: int | None = None
    is_whole: bool = False
    has_error: bool = False

    @property
    def is_refused(self) -> bool:
        return self.status == 429

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_text_ts is None else self.first_text_ts - self.begin_ts


class ExchangeProtocol(asyncio.Protocol):
    """Writes a request and watches the answer; `done` is set once the connection has ended."""

    def __init__(self, exchange: Exchange, request: bytes) -> None:
        self.exchange = exchange
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._head = b""
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        exchange, now_ts = self.exchange, time.monotonic()
        if exchange.status_ts is None:
            exchange.status_ts = now_ts
            exchange.status = int(data[9:12])
        if exchange.status != 200:
            self._head += data
            return
        if exchange.first_text_ts is None and TEXT.search(data):
            exchange.first_text_ts = now_ts
        seen = self._tail + data
        exchange.has_error = exchange.has_error or IN_BAND_ERROR in seen
        exchange.is_whole = DONE in seen
        self._tail = seen[-32:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.exchange.end_ts = time.monotonic()
        found = RETRY_AFTER.search(self._head)
        if found:
            self.exchange.retry_after_s = int(found[1])
        if not self.done.done():
            self.done.set_result(None)


async def exchange(port: int, request: bytes) -> Exchange:
    """Send one request, and return when its answer has ended. Cancelled, it closes the connection."""
    found = Exchange(time.monotonic())
    try:
        transport, protocol = await asyncio.get_running_loop().create_connection(
            lambda: ExchangeProtocol(found, request), "127.0.0.1", port
        )
    except OSError:
        found.end_ts = time.monotonic()
        return found
    try:
        await protocol.done
    finally:
        transport.abort()
    return found


@dataclass
class Mix:
    """Requests of mixed sizes: short and long prompts, short and long answers, each as often as the other.

    Every request has another prompt. The sizes are drawn anew for each, from a seed.
    """

    server: Server
    prompt_words: tuple[int, ...] = (20, 300)
    max_tokens: tuple[int, ...] = (32, 160)
    seed: int = 0
    num_made: int = 0
    draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def request(self, key: str | None = None) -> bytes:
        """The bytes of the next request, with the key of another user where one is given."""
        self.num_made += 1
        body: dict[str, Any] = {
            "model": self.server.model,
            "stream": True,
            "max_tokens": self.draw.choice(self.max_tokens),
            "seed": self.num_made,
            "messages": [
                {
                    "role": "user",
                    "content": prompt(
                        1_000_000 * self.seed + self.num_made, self.draw.choice(self.prompt_words), 0.0
                    ),
                }
            ],
            **self.server.extra,
        }
        payload = json.dumps(body).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {key or self.server.key}\r\n"
            f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + payload

    @property
    def mean_tokens(self) -> float:
        """Of an answer."""
        return sum(self.max_tokens) / len(self.max_tokens)
