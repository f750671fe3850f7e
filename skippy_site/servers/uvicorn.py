"""Serves with uvicorn's protocol on uvloop: the cheaper of the two servers, chunk by chunk.

Only the protocol is uvicorn's. Its `Server` re-raises the signal that stopped it, polls ten times a
second, and knows the lifespan only as an ASGI message; `lifecycle.live` takes its place.
"""

from __future__ import annotations

import asyncio
import logging
import socket

import uvicorn
import uvloop
from uvicorn.server import ServerState

from skippy_site.servers.connections import Connections
from skippy_site.servers.contract import WEBSOCKET_MAX_BYTES, Announce, Application, Lifespan, ListenConfig
from skippy_site.servers.cross_origin_access import with_cross_origin
from skippy_site.servers.early import EarlyRules
from skippy_site.servers.lifecycle import finish_loop, live
from skippy_site.servers.listening import BACKLOG, open_sockets
from skippy_site.servers.uvicorn_protocol import Protocol

_log = logging.getLogger(__name__)


class UvicornFront:
    """uvicorn, as `lifecycle.live` and `Protocol` see it."""

    def __init__(self, application: Application, config: ListenConfig, sockets: list[socket.socket]) -> None:
        self.config = config
        self.rules = EarlyRules(config)
        self.connections = Connections(config)
        self.state = ServerState()
        self.uvicorn_config = uvicorn.Config(
            application,
            interface="asgi3",
            http=Protocol,
            lifespan="off",
            log_config=None,
            # It warns of each malformed request: anybody could fill the disk.
            log_level="error",
            access_log=False,
            # Client addresses are for the application to judge, for both servers in one way.
            proxy_headers=False,
            server_header=False,
            date_header=False,
            # One message goes to many WebSockets, and each would compress it for itself.
            ws_per_message_deflate=False,
            ws_max_size=WEBSOCKET_MAX_BYTES,
        )
        self.uvicorn_config.load()
        self._sockets = sockets
        self._servers: list[asyncio.AbstractServer] = []

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._sockets:
            self._servers.append(
                await loop.create_server(lambda: Protocol(self), sock=listener, backlog=BACKLOG)
            )

    def begin_drain(self) -> None:
        """WebSocket connections are uvicorn's own; its protocols know how to say goodbye."""
        for connection in list(self.state.connections):
            if not isinstance(connection, Protocol):
                connection.shutdown()

    def close_listeners(self) -> None:
        for server in self._servers:
            server.close()


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
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)

    async def run() -> int:
        front = UvicornFront(with_cross_origin(application, config.cross_origin), config, sockets)
        if announce is not None:
            announce(config.host, port)
        return await live(front, lifespan, config)

    try:
        return loop.run_until_complete(run())
    finally:
        finish_loop(loop)
