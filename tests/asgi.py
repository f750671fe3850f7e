"""Drives an ASGI application in-process, with the client's side in a test's hands."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class Exchange:
    """One HTTP exchange. `body` may be sent in parts; `disconnect()` is the client going away."""

    def __init__(
        self,
        app: Any,
        method: str,
        path: str,
        *,
        headers: dict[str, str | bytes] | None = None,
        client: str = "192.0.2.1",
    ) -> None:
        raw = [
            (n.lower().encode(), v if isinstance(v, bytes) else v.encode())
            for n, v in (headers or {}).items()
        ]
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.frames: list[bytes] = []
        self.is_complete = False
        self._changed = asyncio.Event()
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": raw,
            "client": (client, 5),
        }
        self.task = asyncio.ensure_future(app(scope, self._incoming.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert self.status is None, "two answers to one request"
            self.status = message["status"]
            self.headers = {n.decode(): v.decode() for n, v in message["headers"]}
        else:
            assert self.status is not None and not self.is_complete, "body outside of an answer"
            self.frames.append(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        self._changed.set()
        await asyncio.sleep(0)

    def send(self, body: bytes = b"", *, more: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def until(self, condition: Any, *, patience_s: float = 5.0) -> None:
        async with asyncio.timeout(patience_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def answer(self) -> Exchange:
        """Wait for the whole answer and for the application to return."""
        await self.until(lambda: self.is_complete)
        await asyncio.wait_for(self.task, 5.0)
        return self

    @property
    def body(self) -> bytes:
        return b"".join(self.frames)

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """Parsed SSE data, `"[DONE]"` as itself."""
        lines = [line[6:] for line in self.body.decode().split("\n\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def exchange(
    app: Any,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    headers: dict[str, str | bytes] | None = None,
    client: str = "192.0.2.1",
) -> Exchange:
    """Send a whole request and wait for the whole answer."""
    started = Exchange(app, method, path, headers=headers, client=client)
    started.send(body)
    return await started.answer()
