"""Serves with Daphne: its parser and its WebSockets, on our sockets, with our limits and our end.

Of Daphne's `Server` the parts are kept that its protocols call; its run loop, its timers and its
bookkeeping of applications are not used: they would kill an answer ten seconds after a disconnect,
find a failed application a second late, and cut all streams on SIGTERM.

Importing this module installs Twisted's asyncio reactor for the whole process.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

from daphne.http_protocol import HTTPFactory
from daphne.server import Server, reactor  # installs the reactor: before any other of Twisted
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from twisted.logger import LogLevel, STDLibLogObserver, globalLogBeginner

from skippy_site.servers.answering import run_application
from skippy_site.servers.bodies import BodyMemory
from skippy_site.servers.connections import Connections, Entrance
from skippy_site.servers.contract import (
    CONNECTION_EXTENSION,
    WEBSOCKET_MAX_BYTES,
    WRITER_EXTENSION,
    Announce,
    Application,
    Lifespan,
    ListenConfig,
    Scope,
)
from skippy_site.servers.cross_origin_access import with_cross_origin
from skippy_site.servers.daphne_request import (
    HttpExchange,
    Inbox,
    SkippyRequest,
    WebSocketExchange,
    close_going_away,
)
from skippy_site.servers.early import EarlyRules
from skippy_site.servers.lifecycle import finish_loop, live
from skippy_site.servers.listening import open_sockets
from skippy_site.servers.twisted_channel import Channel, TurnedAway
from skippy_site.servers.twisted_transport import StreamPort

_log = logging.getLogger(__name__)


class SkippyServer(Server):  # type: ignore[misc]
    """What Daphne's protocols ask of their server. `connections` here are the WebSockets alone
    (Daphne's timer pings them); `clients` are all connections."""

    def __init__(self, application: Application, config: ListenConfig) -> None:
        super().__init__(
            application,
            endpoints=["given as sockets"],
            # The whole body in one message: it is in memory anyway.
            request_buffer_size=config.max_body_bytes + 1,
            websocket_timeout=-1,
            websocket_max_message_size=WEBSOCKET_MAX_BYTES,
            websocket_max_frame_size=WEBSOCKET_MAX_BYTES,
            server_name="",
        )
        self.config = config
        self.rules = EarlyRules(config)
        self.clients = Connections(config)
        self.bodies = BodyMemory(
            max_body_bytes=config.max_body_bytes, max_buffered_bytes=config.max_buffered_body_bytes
        )
        self.connections: dict[Any, None] = {}
        self.http_factory = ChannelFactory(self)
        self.ws_factory = WebSocketFactory(self, server="")
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            maxMessagePayloadSize=self.websocket_max_message_size,
            maxFramePayloadSize=self.websocket_max_frame_size,
        )

    def build_request(self, channel: Channel, queued: int) -> SkippyRequest:
        # Django parses forms itself; Twisted would refuse a malformed one in its own words.
        return SkippyRequest(channel, queued, parsePOSTFormSubmission=False)

    # -- called by Daphne's protocols -----------------------------------------------------------

    def protocol_connected(self, protocol: Any) -> None:
        if isinstance(protocol, WebSocketProtocol):
            self.connections[protocol] = None

    def protocol_disconnected(self, protocol: Any) -> None:
        self.connections.pop(protocol, None)
        if isinstance(protocol, SkippyRequest):
            protocol.release_meter()

    def create_application(self, protocol: Any, scope: Scope) -> Inbox:
        exchange: HttpExchange | WebSocketExchange
        if isinstance(protocol, WebSocketProtocol):
            exchange = WebSocketExchange(protocol)
            scope["extensions"] = {CONNECTION_EXTENSION: protocol.transport.entrant}
        else:
            exchange = HttpExchange(protocol)
            scope["extensions"] = {CONNECTION_EXTENSION: protocol.channel, WRITER_EXTENSION: exchange}
        scope["asgi"] = {"version": "3.0", "spec_version": "2.3"}
        answering = run_application(self.application, scope, exchange, self.rules.cross_origin)
        self.clients.track(asyncio.get_running_loop().create_task(answering))
        return exchange.inbox


class ChannelFactory(HTTPFactory):  # type: ignore[misc]
    """Lets connections in, or not."""

    server: SkippyServer

    def buildProtocol(self, addr: Any) -> Channel | TurnedAway | None:
        clients = self.server.clients
        entrance = clients.next_entrance()
        if entrance is Entrance.DROPPED:
            return None
        made: Channel | TurnedAway
        made = Channel(self.server) if entrance is Entrance.ADMITTED else TurnedAway(self.server)
        made.factory = self
        clients.enter(made, entrance)
        return made

    def log(self, request: Any) -> None:
        """Twisted's line for each request, which it makes even where nobody reads it: ours says more."""


class DaphneFront:
    """Daphne, as `lifecycle.live` sees it."""

    def __init__(self, server: SkippyServer, sockets: list[socket.socket]) -> None:
        self._server = server
        self._sockets = sockets
        self._ports: list[StreamPort] = []
        self.connections = server.clients

    async def open(self) -> None:
        for listener in self._sockets:
            port = StreamPort.of(listener, self._server.http_factory, reactor)
            port.startListening()
            self._ports.append(port)
        self._server.timeout_checker()

    def begin_drain(self) -> None:
        for protocol in list(self._server.connections):
            close_going_away(protocol)

    def close_listeners(self) -> None:
        for port in self._ports:
            port.stopListening()


def serve(
    application: Application,
    lifespan: Lifespan,
    config: ListenConfig,
    *,
    announce: Announce | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code, 0 after a clean stop.

    `announce` is called once with the host and port that are listened at. Raises ListenProblem.
    """
    sockets = open_sockets(config)
    port = sockets[0].getsockname()[1]
    _log_through_logging()
    loop = reactor._asyncioEventloop
    asyncio.set_event_loop(loop)
    exit_codes: list[int] = []

    async def run() -> None:
        try:
            shared = with_cross_origin(application, config.cross_origin)
            front = DaphneFront(SkippyServer(shared, config), sockets)
            if announce is not None:
                announce(config.host, port)
            exit_codes.append(await live(front, lifespan, config))
        finally:
            reactor.stop()

    def begin() -> None:
        tasks.append(loop.create_task(run()))

    tasks: list[asyncio.Task[None]] = []
    reactor.callWhenRunning(begin)
    reactor.run(installSignalHandlers=False)
    for task in tasks:
        if task.done():
            task.result()
    finish_loop(loop)
    return exit_codes[0] if exit_codes else 1


def _log_through_logging() -> None:
    """Twisted's warnings and errors to the logger "twisted"; its chatter to nobody."""
    observer = STDLibLogObserver("twisted")

    def observe(event: dict[str, Any]) -> None:
        if event.get("log_level", LogLevel.info) >= LogLevel.warn:
            observer(event)

    globalLogBeginner.beginLoggingTo([observe], redirectStandardIO=False, discardBuffer=True)
