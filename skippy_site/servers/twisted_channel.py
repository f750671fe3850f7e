"""One HTTP/1.1 connection under Twisted: what is refused, and when, before Daphne sees a request.

Twisted's channel trusts its peer: it reads a body of any size into a file before anybody may look
at the request, resets its only timer with every byte, and closes so fast after a refusal that the
client's kernel may throw the answer away. This channel asks `EarlyRules` at the end of the headers,
keeps the deadlines of `phases`, and lingers after a refusal.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from twisted.internet import protocol
from twisted.web import http

from inference.domain.errors import SkippyError
from inference.openai.errors import WireResponse
from skippy_site.servers.early import RequestHead, target_path
from skippy_site.servers.phases import Phase
from skippy_site.servers.refusal import headers_too_large, refusal, response_bytes

if TYPE_CHECKING:
    from skippy_site.servers.daphne import SkippyServer

MAX_LENGTH_DIGITS = 18


class TwistedConnection:
    """What every connection has, admitted or not: a clock, a place in the count, a hard end."""

    transport: Any
    stalled_since_ts: float | None = None

    def __init__(self, server: SkippyServer) -> None:
        super().__init__()
        self.server = server
        self.clock = server.clients.new_clock()
        self.high_water_bytes = server.config.high_water_bytes
        self._num_discarded_bytes = 0

    def left(self) -> None:
        """The socket is closed."""
        self.server.clients.leave(self)

    def time_out(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def close_after_answer(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        self.transport.abortConnection()

    def say_and_linger(self, data: bytes) -> None:
        """Send `data` as the last word, then read and forget until the client has closed."""
        self.clock.enter(Phase.LINGERING)
        self.transport.unregisterProducer()
        self.transport.write(data)
        self.transport.loseWriteConnection()
        self.transport.resumeProducing()

    def discard(self, num_bytes: int) -> None:
        self._num_discarded_bytes += num_bytes
        if self._num_discarded_bytes > self.server.config.max_linger_bytes:
            self.abort()


class TurnedAway(TwistedConnection, protocol.Protocol):  # type: ignore[misc]
    """A connection beyond the limit: told 503 before it asks for anything."""

    def connectionMade(self) -> None:
        error = self.server.rules.too_many_connections()
        self.say_and_linger(response_bytes(refusal(error)))

    def dataReceived(self, data: bytes) -> None:
        self.discard(len(data))

    def time_out(self) -> None:
        self.abort()

    def close(self) -> None:
        self.abort()

    def close_after_answer(self) -> None:
        """It closes anyway."""


class Channel(TwistedConnection, http.HTTPChannel):  # type: ignore[misc]
    """An admitted connection. A new request is parsed only after the one before is answered."""

    # Twisted's own timers; the phases' deadlines replace them.
    timeOut = None

    def __init__(self, server: SkippyServer) -> None:
        super().__init__(server)
        self.totalHeadersSize = self.MAX_LENGTH = server.config.max_header_bytes
        self.maxHeaders = server.config.max_header_bytes  # the bytes alone are the limit
        self.requestFactory = server.build_request
        self._is_refused = False
        self._writable = asyncio.Event()

    # -- reading --------------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        if self._is_refused:
            self.discard(len(data))
            return
        if self.clock.phase is Phase.WAITING:
            self.clock.enter(Phase.HEADERS)
        super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:
        if self._receivedHeaderSize + len(line) > self.totalHeadersSize:
            self.refuse(headers_too_large())
            return
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        self.refuse(headers_too_large())

    def _maybeChooseTransferDecoder(self, header: bytes, data: bytes) -> bool:
        # int() of thousands of digits raises, far away from anybody who could answer.
        if header == b"Content-Length" and data.isdigit() and len(data) > MAX_LENGTH_DIGITS:
            self.refuse_with(self.server.rules.body_too_large())
            return False
        return bool(super()._maybeChooseTransferDecoder(header, data))

    def allHeadersReceived(self) -> None:
        if self._is_refused:
            return
        headers = self.requests[-1].requestHeaders
        head = RequestHead(
            method=self._command,
            target=self._path,
            content_length=self.length,
            authorizations=headers.getRawHeaders(b"authorization", ()),
            api_keys=headers.getRawHeaders(b"x-api-key", ()),
        )
        error = self.server.rules.refuse(head, is_draining=self.server.clients.is_draining)
        if error is not None:
            incoming = headers.getRawHeaders(b"x-request-id", (None,))
            answer = self._refusal(error, incoming_id=incoming[0])
            self.refuse(answer, is_head=self._command == b"HEAD")
            return
        if self.length != 0:
            self.clock.enter(Phase.BODY)
        super().allHeadersReceived()
        if self.server.clients.is_draining:
            self.close_after_answer()

    def allContentReceived(self) -> None:
        if self._is_refused:
            return
        self.clock.enter(Phase.ANSWERING)
        super().allContentReceived()

    def requestDone(self, request: Any) -> None:
        if self.server.clients.is_draining:
            self.persistent = 0
        if self.persistent:
            self.clock.enter(Phase.WAITING)
        super().requestDone(request)

    # -- refusing and closing -------------------------------------------------------------------

    def refuse(self, response: WireResponse, *, is_head: bool = False) -> None:
        """Answer the request that is being read, and take nothing more from this client.

        Earlier answers are complete when this is called, so that the bytes cannot get between.
        """
        if self._is_refused or self.transport.disconnecting:
            return
        self._is_refused = True
        # Ends the parser's loop over what it has read already.
        self.paused, self._buffer = True, b""
        for request in self.requests:
            request.drop_body()
        self.say_and_linger(response_bytes(response, is_head=is_head))

    def refuse_with(self, error: SkippyError) -> None:
        """The same, for `error`."""
        self.refuse(self._refusal(error))

    def _refusal(self, error: SkippyError, *, incoming_id: bytes | None = None) -> WireResponse:
        """In the words of the path that is asked for: known from the request line on until the request is
        complete, when Twisted forgets it. For the origin of the request that is being read, as far as it is
        there."""
        path = target_path(getattr(self, "_path", None) or b"")
        origins = self.requests[-1].requestHeaders.getRawHeaders(b"origin", ()) if self.requests else ()
        cross_origin = self.server.rules.cross_origin.answer_headers(path, origins)
        return refusal(error, path=path, incoming_id=incoming_id, cross_origin=cross_origin)

    def _respondToBadRequestAndDisconnect(self) -> None:
        self.refuse_with(self.server.rules.malformed_request())

    def time_out(self) -> None:
        self.refuse_with(self.server.rules.request_too_slow())

    def close(self) -> None:
        self.loseConnection()

    def loseConnection(self) -> None:
        self.clock.enter(Phase.FLUSHING)
        super().loseConnection()

    def close_after_answer(self) -> None:
        self.persistent = 0
        if self.clock.phase is Phase.WAITING:
            self.loseConnection()
        for request in self.requests:
            request.responseHeaders.setRawHeaders(b"connection", [b"close"])

    # -- write flow control ---------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """The transport holds more than the high-water mark."""
        if self.stalled_since_ts is None:
            self.stalled_since_ts = time.monotonic()
            self._writable.clear()
        super().pauseProducing()

    def resumeProducing(self) -> None:
        self._flows()
        super().resumeProducing()

    async def wait_writable(self) -> None:
        """Returns when the client has taken what was written, or is gone."""
        while self.stalled_since_ts is not None:
            await self._writable.wait()

    def _flows(self) -> None:
        self.stalled_since_ts = None
        self._writable.set()

    def left(self) -> None:
        self._flows()
        super().left()
