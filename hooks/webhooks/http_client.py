"""POSTs to one webhook, as plain as HTTP can be: no redirects, no proxies of the environment, no encodings.

There is no timeout in here: who calls has one deadline for all of it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from hooks.outbound.addresses import WebAddress
from hooks.webhooks.clock import Clock
from hooks.webhooks.connection import Connection, Resolve, connect

# Servers close idle connections after 5 s (uvicorn), 60 s (nginx) or more; ours is closed first.
KEPT_S = 4.0
MAX_KEPT = 8


class HttpClient:
    """Keeps a few connections for the next calls. How many are open at once is decided by who calls."""

    def __init__(
        self,
        address: WebAddress,
        *,
        resolve: Resolve,
        trust: ssl.SSLContext | None,
        allows_private: bool,
        clock: Clock,
    ) -> None:
        self._address = address
        self._resolve = resolve
        self._trust = trust
        self._allows_private = allows_private
        self._clock = clock
        self._kept: list[Connection] = []

    async def post(self, body: bytes, headers: Mapping[str, str], *, max_answer_bytes: int) -> bytes:
        """The body of an answer of 200, which is JSON; nothing of one of 204. Raises CallFailure. Cancelling
        it closes its connection. `headers` are legal ones."""
        connection = self._take() or await connect(
            self._address,
            resolve=self._resolve,
            trust=self._trust,
            allows_private=self._allows_private,
        )
        answer = await connection.ask(self._request(body, headers), max_answer_bytes=max_answer_bytes)
        if connection.can_follow:
            connection.kept_until_ts = self._clock.monotonic() + KEPT_S
            self._kept.append(connection)
            for surplus in self._kept[:-MAX_KEPT]:
                surplus.abort()
            del self._kept[:-MAX_KEPT]
        return answer

    def _take(self) -> Connection | None:
        """The one that was used last, if it is still good; the older ones go, if it is not."""
        now_ts = self._clock.monotonic()
        while self._kept:
            connection = self._kept.pop()
            if connection.can_follow and now_ts < connection.kept_until_ts:
                return connection
            connection.abort()
        return None

    def _request(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        address = self._address
        host = f"[{address.host}]" if ":" in address.host else address.host
        if not address.is_default_port:
            host += f":{address.port}"
        lines = [f"POST {address.target} HTTP/1.1", f"Host: {host}", "Accept: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode("ascii") + body

    async def close(self) -> None:
        """Ends those that are kept."""
        kept, self._kept = self._kept, []
        for connection in kept:
            connection.abort()
        await asyncio.gather(*(connection.wait_closed() for connection in kept))
