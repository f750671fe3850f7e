"""A connection to the very address that was checked, on which one call is made at a time.

Between a check of a name and a connection to it the name can get another address (DNS rebinding). So the
name is looked up once, every address behind it must be one that may be called, and the connection goes to
one of these; TLS still asks for the name's certificate.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import cast

from hooks.outbound.addresses import WebAddress, may_reach
from hooks.webhooks.failures import CallFailure, FailureReason, KeptConnectionEnded
from hooks.webhooks.http_answer import HttpAnswer

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def connect(
    address: WebAddress, *, resolve: Resolve, trust: ssl.SSLContext | None, allows_private: bool
) -> Connection:
    """Raises CallFailure where an address behind the name may not be called, or none of them answers."""
    not_reached = CallFailure(FailureReason.NOT_REACHED, is_down=True, can_retry=True)
    try:
        ips = await resolve(address.host, address.port)
    except OSError:
        raise not_reached from None
    if not all(may_reach(ip, allows_private=allows_private) for ip in ips):
        raise CallFailure(FailureReason.NOT_ALLOWED)
    loop = asyncio.get_running_loop()
    is_secure = address.scheme == "https"
    for ip in dict.fromkeys(ips):
        try:
            _, made = await loop.create_connection(
                Connection,
                ip,
                address.port,
                ssl=(trust or True) if is_secure else None,
                server_hostname=address.host if is_secure else None,
            )
        except OSError:
            # Refused, unreachable, or a certificate that is not believed.
            continue
        return made
    raise not_reached


class Connection(asyncio.Protocol):
    """Owned by one call, or kept for the next. One that speaks without being asked is closed: the next call
    would take what it said for its own answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: HttpAnswer | None = None
        self._done: asyncio.Future[bytes] | None = None
        self._lost = asyncio.Event()
        self._num_calls = 0
        self.kept_until_ts = 0.0

    @property
    def can_follow(self) -> bool:
        """Whether another call may be made on it."""
        return self._transport is not None and not self._transport.is_closing() and not self._lost.is_set()

    async def ask(self, request: bytes, *, max_answer_bytes: int) -> bytes:
        """The body of the answer. Raises CallFailure. Unless all went well, and when it is cancelled, the
        connection is closed with it."""
        if self._transport is None or not self.can_follow:
            raise KeptConnectionEnded
        self._num_calls += 1
        self._answer = answer = HttpAnswer(max_answer_bytes)
        self._done = asyncio.get_running_loop().create_future()
        try:
            # An answer may come before all of it was taken, so nobody waits for that.
            self._transport.write(request)
            return await self._done
        finally:
            self._answer = self._done = None
            if not answer.can_follow or self._transport.get_write_buffer_size():
                self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        await self._lost.wait()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No instance of it under uvloop, which has the same methods.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.is_complete:
            self.abort()
            return
        self._step(self._answer.feed, data)

    def eof_received(self) -> None:
        if self._answer is not None and not self._answer.is_complete:
            self._end(self._answer)

    def connection_lost(self, _error: Exception | None) -> None:
        self._lost.set()
        if self._answer is not None and not self._answer.is_complete:
            self._end(self._answer)

    def _end(self, answer: HttpAnswer) -> None:
        if self._num_calls > 1 and not answer.has_begun:
            self._fail(KeptConnectionEnded())
        else:
            self._step(answer.end)

    def _step(self, step: Callable[..., None], *data: bytes) -> None:
        try:
            step(*data)
        except CallFailure as failure:
            self._fail(failure)
            return
        answer, done = self._answer, self._done
        if answer is not None and answer.is_complete and done is not None and not done.done():
            done.set_result(bytes(answer.body))

    def _fail(self, failure: CallFailure) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(failure)
