"""Daphne's request, and the two ends of it that the application holds: receive and send.

Daphne's own versions leave an answer unfinished when the application fails, send bodies to HEAD
requests that stream, answer errors in HTML, and never make a sender wait.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import TYPE_CHECKING, Any

from daphne.http_protocol import WebRequest
from daphne.ws_protocol import WebSocketProtocol
from twisted.web.http import NO_BODY_CODES

from inference.domain.errors import InternalError, InvalidRequest
from skippy_site.servers.bodies import BodyMeter, BodyVerdict
from skippy_site.servers.contract import Message
from skippy_site.servers.early import origin_form, target_path
from skippy_site.servers.refusal import http_date, refusal

if TYPE_CHECKING:
    from skippy_site.servers.twisted_channel import Channel

GOING_AWAY = 1001


class Inbox(asyncio.Queue[Message]):
    """Messages for the application. A disconnect is the last, and is given as often as asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._last: Message | None = None

    async def receive(self) -> Message:
        if self._last is not None:
            return self._last
        message = await self.get()
        if message["type"].endswith(".disconnect"):
            self._last = message
        return message


class SkippyRequest(WebRequest):  # type: ignore[misc]
    """One HTTP request. Its body is kept in memory, within the limits of `BodyMemory`."""

    channel: Channel | None = None  # Twisted deletes the attribute when the answer is complete
    _meter: BodyMeter | None = None

    # -- the body -------------------------------------------------------------------------------

    def gotLength(self, length: int | None) -> None:
        # In memory, where Twisted takes a file: prompts do not belong on a disk, and writing
        # one would block the loop.
        self.content = BytesIO()
        self._meter = self.server.bodies.open()

    def handleContentChunk(self, data: bytes) -> None:
        if self._meter is None or self.channel is None:
            return
        verdict = self._meter.add(len(data))
        if verdict is BodyVerdict.FITS:
            self.content.write(data)
            return
        rules = self.server.rules
        too_large = verdict is BodyVerdict.TOO_LARGE
        self.channel.refuse_with(rules.body_too_large() if too_large else rules.too_many_bodies())

    def drop_body(self) -> None:
        """Nobody will read it."""
        self.release_meter()
        if self.content is not None:
            self.content.close()

    def release_meter(self) -> None:
        """The body is no longer kept for this request."""
        if self._meter is not None:
            self._meter.release()
            self._meter = None

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        super().requestReceived(command, origin_form(path), version)

    def process(self) -> Any:
        result = super().process()
        # The application has it in its inbox; a long answer need not keep it twice.
        if self.content is not None:
            self.content.close()
        return result

    def connectionLost(self, reason: Any) -> None:
        self.drop_body()
        super().connectionLost(reason)

    # -- the answer -----------------------------------------------------------------------------

    @property
    def is_started(self) -> bool:
        return bool(self._response_started)

    @property
    def is_complete(self) -> bool:
        return bool(self.finished)

    @property
    def is_gone(self) -> bool:
        return not self.finished and self.channel is None

    def handle_reply(self, message: Message) -> None:
        """One message of the application's answer.

        Headers wait for the first part of a body whose length is known, so that both leave in one
        packet; those of a stream go out at once.
        """
        if self.finished or self.channel is None:
            return
        if message["type"] == "http.response.body" and self._response_started:
            if self._has_no_body:
                message = {**message, "body": b""}
            elif self.startedWriting and message.get("more_body"):
                self.write(message.get("body", b""))
                return
        transport = self.channel.transport
        transport.cork()
        try:
            super().handle_reply(message)
            if message["type"] == "http.response.start":
                self._complete_headers(self.channel)
        finally:
            transport.uncork()

    @property
    def has_open_chunks(self) -> bool:
        """A body that is sent in chunks has begun, and can go on."""
        return bool(self.startedWriting and self.chunked and not self.finished and self.channel is not None)

    def write_chunk(self, part: bytes) -> None:
        """What Twisted's `write` does once all its questions are answered. Only if `has_open_chunks`."""
        if self.channel is not None:
            self.sentLength += len(part)
            self.channel.transport.write(b"%x\r\n%b\r\n" % (len(part), part))

    def _complete_headers(self, channel: Channel) -> None:
        headers = self.responseHeaders
        headers.setRawHeaders(b"date", [http_date()])
        if any(b"close" in value.lower() for value in headers.getRawHeaders(b"connection", ())):
            channel.persistent = 0
        if not headers.hasHeader(b"content-length"):
            self.write(b"")

    @property
    def _has_no_body(self) -> bool:
        return self.method == b"HEAD" or self.code in NO_BODY_CODES

    def break_off(self) -> None:
        if self.channel is not None and not self.finished:
            self.channel.loseConnection()

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """Daphne's own refusals (bad header names, undecodable paths), in our shape."""
        is_ours = status >= 500
        error = InternalError("The server had an internal error.") if is_ours else InvalidRequest(f"{body}.")
        path = target_path(self.uri or b"")
        origins = self.requestHeaders.getRawHeaders(b"origin", ())
        rules = self.server.rules
        response = refusal(error, path=path, cross_origin=rules.cross_origin.answer_headers(path, origins))
        headers = list(response.headers)
        self.handle_reply({"type": "http.response.start", "status": response.status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": response.body})


class HttpExchange:
    """The application's side of one request."""

    def __init__(self, request: SkippyRequest) -> None:
        self._request = request
        self._channel = request.channel
        self.inbox = Inbox()
        self.receive = self.inbox.receive

    @property
    def is_started(self) -> bool:
        return self._request.is_started

    @property
    def is_complete(self) -> bool:
        return self._request.is_complete

    @property
    def is_gone(self) -> bool:
        return self._request.is_gone

    # A BodyWriter for the application.

    @property
    def is_writable(self) -> bool:
        channel = self._channel
        return channel is not None and channel.stalled_since_ts is None and self._request.has_open_chunks

    def write(self, part: bytes) -> None:
        self._request.write_chunk(part)

    async def send(self, message: Message) -> None:
        channel = self._channel
        if channel is not None and channel.stalled_since_ts is not None:
            await channel.wait_writable()
        self._request.handle_reply(message)

    def break_off(self) -> None:
        self._request.break_off()


class WebSocketExchange:
    """The application's side of one WebSocket."""

    def __init__(self, protocol: WebSocketProtocol) -> None:
        self._protocol = protocol
        self._channel = protocol.transport.entrant
        self.inbox = Inbox()
        self.receive = self.inbox.receive

    @property
    def is_started(self) -> bool:
        """Always: there is no status line to send an error with once the application runs; a
        handshake that fails is denied by `break_off`."""
        return True

    @property
    def is_complete(self) -> bool:
        return self._protocol.state in (WebSocketProtocol.STATE_CLOSING, WebSocketProtocol.STATE_CLOSED)

    @property
    def is_gone(self) -> bool:
        return self._protocol not in self._protocol.server.connections

    async def send(self, message: Message) -> None:
        if self._channel.stalled_since_ts is not None:
            await self._channel.wait_writable()
        if not self.is_gone:
            self._protocol.handle_reply(message)

    def break_off(self) -> None:
        self._protocol.handle_exception(None)


def close_going_away(protocol: WebSocketProtocol) -> None:
    """Tell a WebSocket's client that the server stops (RFC 6455 §7.4.1: 1001)."""
    if protocol.state == WebSocketProtocol.STATE_OPEN:
        protocol.sendCloseFrame(code=GOING_AWAY)
