"""A receiver of webhooks on this machine that can behave as badly as a test wants."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Received:
    """One call. `connection` counts from 0; header names are in lower case."""

    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(body: bytes | dict[str, Any] | None = None, status: str = "200 OK", **headers: str) -> bytes:
    """An answer; None is `{"actions": []}`. In headers' names _ is -; an empty one is left out."""
    data = body if isinstance(body, bytes) else json.dumps(body or {"actions": []}).encode()
    lines = {"Content_Type": "application/json", "Content_Length": str(len(data)), **headers}
    text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items() if value)
    return f"HTTP/1.1 {status}\r\n{text}\r\n".encode() + data


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def always(data: bytes) -> Behaviour:
    async def behave(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return behave


class Receiver:
    """`behave` answers each call by writing to its connection; it may close it. `ended` counts connections
    that are over."""

    def __init__(self, behave: Behaviour | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.behave = behave or always(answer())
        self.received: list[Received] = []
        self.num_connections = 0
        self.num_ended = 0
        self._changed = asyncio.Condition()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def url(self, host: str = "hook.example", path: str = "/hook") -> str:
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}{path}"

    async def until(self, is_so: Callable[[Receiver], bool]) -> None:
        """Waits for something that this side sees."""
        async with self._changed, asyncio.timeout(60):
            await self._changed.wait_for(lambda: is_so(self))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection, self.num_connections = self.num_connections, self.num_connections + 1
        try:
            # A connection that is reset, or ends in the middle, is an end like any other.
            with suppress(OSError, EOFError, ssl.SSLError):
                while not writer.is_closing():
                    await self._one(reader, writer, connection)
                    await writer.drain()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
            self.num_ended += 1
            await self._tell()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        received = Received(head[0].split(" ")[1], headers, body, connection)
        self.received.append(received)
        await self._tell()
        behaving = asyncio.ensure_future(self.behave(received, writer))
        # Whoever hangs notices all the same that the other side is gone.
        gone = asyncio.ensure_future(_gone(reader))
        try:
            await asyncio.wait({behaving, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not behaving.done():
                raise EOFError
            await behaving
        finally:
            for one in (behaving, gone):
                one.cancel()
            await asyncio.gather(behaving, gone, return_exceptions=True)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _gone(reader: asyncio.StreamReader) -> None:
    """Until the client has closed; reads nothing of what it may send next."""
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.01)


async def here(_host: str, _port: int) -> list[str]:
    """For names that are none: this machine."""
    return ["127.0.0.1"]
