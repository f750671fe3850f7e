"""What both ASGI servers promise, so that nothing above them needs to know which one runs.

Daphne and uvicorn differ where it hurts a streaming service: write flow control, body limits, what
SIGTERM does, what a dead reader costs. `ListenConfig` and `Lifespan` are all that a caller gives;
`ClientConnection` is all that an application may ask of the socket beyond ASGI. docs of the
behaviour itself: the contract suite in tests/contract/servers, which runs on both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from skippy_site.servers.cross_origin import NOBODY, CrossOriginPolicy

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
WEBSOCKET_MAX_BYTES = 1024 * 1024
"""One message that a client sends over a WebSocket."""
Announce = Callable[[str, int], None]
"""Called once with the host and port that are listened at."""

CONNECTION_EXTENSION = "skippy.connection"
"""Key in `scope["extensions"]` under which the application finds its `ClientConnection`."""

WRITER_EXTENSION = "skippy.writer"
"""Key in `scope["extensions"]` under which an HTTP application finds its `BodyWriter`."""


class ListenProblem(Exception):
    """The address cannot be listened at; the message is one line for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenConfig:
    """Where to listen and what a client may cost. A time limit of 0 means that there is none."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes any free port."""
    max_body_bytes: int = 32 * 1024 * 1024
    max_buffered_body_bytes: int = 512 * 1024 * 1024
    """All request bodies together that wait in memory for their end (Daphne only: uvicorn pauses
    the client instead)."""
    max_header_bytes: int = 32 * 1024
    """Request line and headers together; 431 above."""
    header_timeout_s: float = 20.0
    """For all headers of one request, and for the first byte on a new connection."""
    body_timeout_s: float = 120.0
    keep_alive_s: float = 75.0
    """A connection between two requests; longer than the usual 60 s of load balancers, so that it
    is they who close."""
    max_connections: int = 1024
    send_buffer_bytes: int = 32 * 1024
    """SO_SNDBUF (the kernel doubles it). With the default of megabytes a reader that stopped
    cannot be told from a slow one: a whole answer fits into the kernel."""
    high_water_bytes: int = 16 * 1024
    """Bytes that may wait in the process before `await send` blocks."""
    stall_timeout_s: float = 60.0
    """A blocked `send` that nobody above ended: the connection is aborted."""
    linger_s: float = 5.0
    """How long a refused client's remaining bytes are read and thrown away, so that the answer is
    not lost to a TCP reset."""
    max_linger_bytes: int = 64 * 1024 * 1024
    drain_grace_s: float = 20.0
    """Time for running answers to end by themselves after the first SIGTERM."""
    last_words_s: float = 2.0
    """Time to end in-band after `EndsAnswers.begin_stop`, and again after cancellation."""
    stop_timeout_s: float = 30.0
    """Time for `Lifespan.stop`; when it runs out the process ends with exit code 1."""
    cross_origin: CrossOriginPolicy = NOBODY
    """Whose pages may call from a browser: nobody's."""
    probe_paths: frozenset[str] = frozenset({"/healthz", "/readyz"})
    """Paths that are still served while draining; all others get 503."""


class Lifespan(Protocol):
    """What lives as long as the server does, in the order in which it is called."""

    async def start(self) -> None:
        """On the running loop, once, when the server already listens. Slow loading belongs into a
        task or thread of its own; an exception ends the server with exit code 1."""

    def begin_drain(self) -> None:
        """The first SIGTERM or SIGINT: readiness goes red, nothing new is admitted."""

    async def stop(self) -> None:
        """After the last answer ended; threads are joined here, before the interpreter exits."""


@runtime_checkable
class EndsAnswers(Protocol):
    """A `Lifespan` that can end running answers in-band, which a mere cancellation cannot."""

    def begin_stop(self) -> None:
        """The grace time is over (or a second signal came) and answers still run: tell their
        clients. What still runs `last_words_s` later is cancelled."""


class BodyWriter(Protocol):
    """Writes parts of a streamed body without a wait. `send` may have to wait for its reader, so it
    needs a task that can be suspended; a token that arrives while the reader keeps up needs neither,
    and waking a task for each costs more than the token."""

    @property
    def is_writable(self) -> bool:
        """Whether `write` may be called now: the body has begun, is streamed in chunks and not at its
        end, and the client is there and reads."""

    def write(self, part: bytes) -> None:
        """As `send` of a part that is not the last. Only where `is_writable`; `part` is not empty."""


class ClientConnection(Protocol):
    """The client's socket, as far as an application may care: `scope["extensions"][…]`."""

    @property
    def stalled_since_ts(self) -> float | None:
        """Monotonic instant since which `send` blocks because the client reads too slowly; None
        while it does not."""

    def abort(self) -> None:
        """Close at once and drop what is unsent. Returning from the application would wait for a
        flush that a stalled reader never allows."""
