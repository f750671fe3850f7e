"""One request and its answer under uvicorn, as the application and our contract see it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

if TYPE_CHECKING:
    from skippy_site.servers.uvicorn_protocol import Protocol


class _AnyLength(float):
    """The length of an HTTP/1.0 answer: whatever comes until the connection closes. uvicorn's
    cycle compares it with what is sent and finds nothing wrong."""

    def __sub__(self, other: float) -> _AnyLength:
        return self

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = float.__hash__


class Cycle(RequestResponseCycle):  # type: ignore[misc]
    """One request and its answer; an `Exchange` for `run_application`."""

    def __init__(self, *, http_version: str, reply: ReplyTransport, **rest: Any) -> None:
        super().__init__(transport=reply, **rest)
        self._reply = reply
        if http_version == "1.0":
            self.chunked_encoding = False
            self.expected_content_length = _AnyLength(math.inf)

    @property
    def is_started(self) -> bool:
        return bool(self.response_started)

    @property
    def is_complete(self) -> bool:
        return bool(self.response_complete)

    @property
    def is_gone(self) -> bool:
        return bool(self.disconnected)

    def break_off(self) -> None:
        self._reply.close()

    # A BodyWriter for the application.

    @property
    def is_writable(self) -> bool:
        return bool(
            self.response_started
            and self.chunked_encoding
            and not self.response_complete
            and not self.disconnected
            and not self.flow.write_paused
            and self.scope["method"] != "HEAD"
        )

    def write(self, part: bytes) -> None:
        self._reply.write(b"%x\r\n%b\r\n" % (len(part), part))

    def tell_gone(self) -> None:
        """To the application it is as if the client had left."""
        self.disconnected = True
        self.message_event.set()


class ReplyTransport:
    """What a cycle needs of its transport; its `close` waits for a client that still sends."""

    __slots__ = ("_protocol", "is_closing", "write")

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing

    def close(self) -> None:
        self._protocol.close_politely()
