"""One HTTP/1.1 connection under uvicorn: httptools' parser, with our limits around it.

uvicorn's protocol has no limit on headers or bodies and no deadline but the one between requests; a
pipelined request that is malformed makes it write into the answer before; it sends chunks to
HTTP/1.0 clients; and it may close so fast that an answer is lost. Built on uvicorn 0.54's
`HttpToolsProtocol`, of which `on_headers_complete` is replaced whole.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from inference.domain.errors import SkippyError
from inference.openai.errors import WireResponse
from skippy_site.servers.answering import run_application
from skippy_site.servers.connections import Entrance
from skippy_site.servers.contract import (
    CONNECTION_EXTENSION,
    WRITER_EXTENSION,
    Application,
    Receive,
    Scope,
    Send,
)
from skippy_site.servers.early import RequestHead, origin_form, target_path
from skippy_site.servers.phases import Phase
from skippy_site.servers.refusal import (
    headers_too_large,
    http_date,
    refusal,
    response_bytes,
    send_response,
)
from skippy_site.servers.uvicorn_cycle import Cycle, ReplyTransport

if TYPE_CHECKING:
    from skippy_site.servers.uvicorn import UvicornFront

ABORT_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER on, 0 s: the kernel drops what is unsent instead of keeping the socket."""


class Protocol(HttpToolsProtocol):  # type: ignore[misc]
    """One connection, admitted or turned away. Requests are answered one after the other."""

    def __init__(self, front: UvicornFront) -> None:
        super().__init__(config=front.uvicorn_config, server_state=front.state, app_state={})
        self.front = front
        self.clock = front.connections.new_clock()
        self.stalled_since_ts: float | None = None
        self._answering: Cycle | None = None
        self._is_mid_message = False
        self._has_headers = False
        self._num_header_bytes = 0
        self._num_fed_header_bytes = 0
        self._num_body_bytes = 0
        self._is_deaf = False
        self._num_discarded_bytes = 0

    # -- the socket -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=self.front.config.high_water_bytes)
        self._reply = ReplyTransport(self)
        entrance = self.front.connections.next_entrance()
        self.front.connections.enter(self, entrance)
        if entrance is Entrance.TURNED_AWAY:
            self._say_and_linger(refusal(self.front.rules.too_many_connections()))
        elif entrance is Entrance.DROPPED:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stalled_since_ts = None
        self.front.connections.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._discard(len(data))
            return
        if self.clock.phase is Phase.WAITING:
            self.clock.enter(Phase.HEADERS)
        was_in_head = self._is_in_head
        super().data_received(data)
        if was_in_head and self._is_in_head:
            # httptools keeps an unfinished header to itself: count what it was fed. Not the read in
            # which the head began, which may hold the end of another request's body.
            self._num_fed_header_bytes += len(data)
            self._check_header_size()

    def pause_writing(self) -> None:
        self.stalled_since_ts = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.stalled_since_ts = None
        super().resume_writing()

    def handle_websocket_upgrade(self) -> None:
        if self._is_deaf:
            return
        self.front.connections.leave(self)
        super().handle_websocket_upgrade()

    # -- the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_mid_message = True
        self._has_headers = False
        self._num_header_bytes = self._num_fed_header_bytes = self._num_body_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_header_bytes += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._num_header_bytes += len(self.url)
        self._check_header_size()
        if self._is_deaf:
            return
        self._has_headers = True
        is_upgrade = self.parser.should_upgrade() and self._should_upgrade()
        response = self._early_refusal()
        if is_upgrade:
            if response is not None:
                self.refuse(response)
            # All that uvicorn's hand-over to a WebSocket protocol needs.
            self.scope["method"] = self.parser.get_method().decode("ascii")
            return
        application = self.app if response is None else _Refusal(response)
        self._fill_scope()
        cycle = self._new_cycle()
        running = self._answering
        self.cycle = cycle
        if running is None:
            self._start_asgi_task(cycle, application)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, application))
        self._follow()

    def on_body(self, body: bytes) -> None:
        if self._is_deaf:
            return
        self._num_body_bytes += len(body)
        if self._num_body_bytes > self.front.config.max_body_bytes:
            self._refuse_with(self.front.rules.body_too_large())
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_mid_message = False
        if self._is_deaf:
            return
        super().on_message_complete()
        self._follow()

    def send_400_response(self, msg: str) -> None:
        self._refuse_with(self.front.rules.malformed_request())

    @property
    def _is_in_head(self) -> bool:
        return self._is_mid_message and not self._has_headers

    def _check_header_size(self) -> None:
        if max(self._num_header_bytes, self._num_fed_header_bytes) > self.front.config.max_header_bytes:
            self.refuse(headers_too_large())

    def _early_refusal(self) -> WireResponse | None:
        method = self.parser.get_method()
        values: dict[bytes, list[bytes]] = {
            name: [] for name in (b"authorization", b"x-api-key", b"content-length", b"x-request-id")
        }
        for name, value in self.headers:
            if name in values:
                values[name].append(value)
        lengths = values[b"content-length"]
        head = RequestHead(
            method=method,
            target=self.url,
            # The parser has refused what is not one number already.
            content_length=int(lengths[0]) if lengths else None,
            authorizations=values[b"authorization"],
            api_keys=values[b"x-api-key"],
        )
        connections = self.front.connections
        error = self.front.rules.refuse(head, is_draining=connections.is_draining)
        if error is None:
            return None
        return self._refusal(error, incoming_id=next(iter(values[b"x-request-id"]), None))

    def _fill_scope(self) -> None:
        url = httptools.parse_url(origin_form(self.url))
        raw_path = url.path or b"/"
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = self.parser.get_http_version()
        self.scope["path"] = unquote(raw_path.decode("ascii"))
        self.scope["raw_path"] = raw_path
        self.scope["query_string"] = url.query or b""
        self.scope["extensions"] = {CONNECTION_EXTENSION: self}

    def _new_cycle(self) -> Cycle:
        http_version = self.scope["http_version"]
        is_draining = self.front.connections.is_draining
        cycle = Cycle(
            http_version=http_version,
            reply=self._reply,
            scope=self.scope,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=[(b"date", http_date())],
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=http_version != "1.0" and self.parser.should_keep_alive() and not is_draining,
            on_response=self.on_response_complete,
        )
        self.scope["extensions"][WRITER_EXTENSION] = cycle
        return cycle

    # -- answering ------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Cycle, app: Application) -> None:
        self._answering = cycle
        task = self.loop.create_task(run_application(app, cycle.scope, cycle, self.front.rules.cross_origin))
        self.front.connections.track(task)

    def on_response_complete(self) -> None:
        self._answering = None
        if not self.clock.is_closing:
            super().on_response_complete()
            # The clock's deadline takes the place of uvicorn's timer.
            self._unset_keepalive_if_required()
            self._follow()

    def _follow(self) -> None:
        """Bring the clock's phase in line with what is going on."""
        if self.clock.is_closing:
            return
        if self._answering is not None:
            self.clock.enter(Phase.BODY if self._answering.more_body else Phase.ANSWERING)
        elif self._is_mid_message:
            self.clock.enter(Phase.BODY if self._has_headers else Phase.HEADERS)
        else:
            self.clock.enter(Phase.WAITING)

    # -- refusing and closing -------------------------------------------------------------------

    def refuse(self, response: WireResponse) -> None:
        """Answer the request that is being read, if nothing else is being answered; take nothing
        more from this client in any case."""
        if self._is_deaf:
            return
        running = self._answering
        is_own_body = running is not None and running is self.cycle and running.more_body
        if running is None or (is_own_body and not running.is_started):
            self._say_and_linger(response)
        else:
            # An answer is on its way, and nothing may get between its bytes.
            self._is_deaf = True
            self.pipeline.clear()
            running.keep_alive = False
            if is_own_body:
                self.transport.close()
                self.clock.enter(Phase.FLUSHING)
        if running is not None and is_own_body:
            running.tell_gone()

    def _refuse_with(self, error: SkippyError) -> None:
        self.refuse(self._refusal(error))

    def _refusal(self, error: SkippyError, *, incoming_id: bytes | None = None) -> WireResponse:
        """In the words of the path that is asked for, where that is known; for the origin of the request that
        is being read, as far as it is there."""
        path = target_path(self.url)
        origins = [value for name, value in self.headers or () if name == b"origin"]
        cross_origin = self.front.rules.cross_origin.answer_headers(path, origins)
        return refusal(error, path=path, incoming_id=incoming_id, cross_origin=cross_origin)

    def time_out(self) -> None:
        self._refuse_with(self.front.rules.request_too_slow())

    def close(self) -> None:
        self.clock.enter(Phase.FLUSHING)
        self.transport.close()

    def close_politely(self) -> None:
        """After the last answer: at once, unless the client is still sending its request."""
        if self._is_mid_message:
            self._linger()
        else:
            self.close()

    def close_after_answer(self) -> None:
        if self._answering is not None:
            self._answering.keep_alive = False
        elif self.clock.phase is Phase.WAITING:
            self.close()

    def abort(self) -> None:
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT_ON_CLOSE)
        self.transport.abort()

    def _say_and_linger(self, response: WireResponse) -> None:
        self.transport.write(response_bytes(response, is_head=self._is_head()))
        self._linger()

    def _linger(self) -> None:
        self._is_deaf = True
        self.clock.enter(Phase.LINGERING)
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
        self.flow.resume_reading()

    def _discard(self, num_bytes: int) -> None:
        self._num_discarded_bytes += num_bytes
        if self._num_discarded_bytes > self.front.config.max_linger_bytes:
            self.abort()

    def _is_head(self) -> bool:
        return self._has_headers and self.parser is not None and self.parser.get_method() == b"HEAD"


class _Refusal:
    """An application that has one answer: keeps pipelined answers in order."""

    def __init__(self, response: WireResponse) -> None:
        self._response = response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_response(send, self._response)
