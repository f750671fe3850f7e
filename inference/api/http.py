"""A request as the doors see it, and the one writer of its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from accounts.keys import without_keys
from inference.domain.errors import SkippyError
from inference.openai.dialect import OPENAI, Dialect
from inference.openai.errors import Header
from inference.openai.sse import CONTENT_TYPE, KEEP_ALIVE

Send = Callable[[dict[str, Any]], Awaitable[None]]
MAX_SHOWN_PATH = 200


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Method, path, body and query string of one request."""

    method: str
    path: str
    body: bytes = b""
    arguments: tuple[tuple[str, str], ...] = ()
    query: str = ""

    @classmethod
    def from_scope(cls, scope: dict[str, Any]) -> HttpRequest:
        route = scope.get("url_route", {}).get("kwargs", {})
        query = scope.get("query_string", b"").decode("latin-1")
        return cls(scope["method"], scope["path"], arguments=tuple(sorted(route.items())), query=query)

    def with_body(self, body: bytes) -> HttpRequest:
        return replace(self, body=body)

    def argument(self, name: str) -> str:
        return dict(self.arguments)[name]

    @property
    def shown_path(self) -> str:
        """The path for a message: bounded, and free of what terminals and logs would obey."""
        shown = "".join(c if c.isprintable() else "?" for c in self.path[:MAX_SHOWN_PATH])
        return shown if len(self.path) <= MAX_SHOWN_PATH else shown + "…"


def ignored_headers(names: tuple[str, ...]) -> tuple[Header, ...]:
    """`x-ignored-parameters` names the body fields that nobody defines, so that a slip shows."""
    if not names:
        return ()
    return ((b"x-ignored-parameters", without_keys(", ".join(names)).encode("ascii", "replace")),)


class HttpResponder:
    """Writes one answer: whole, or a stream of frames. Every answer carries x-request-id.

    Once a stream has begun, errors are in-band events, which end it.
    """

    def __init__(self, send: Send, request_id: str, dialect: Dialect = OPENAI) -> None:
        self._send = send
        self._dialect = dialect
        self.request_id = request_id
        self.error_event: Callable[[SkippyError], bytes] = partial(dialect.error_event, request_id=request_id)
        """How a stream tells of its failure and ends; a rendering that knows better may set it."""
        self.is_begun = False
        self._is_beginning = False
        self.is_ended = False
        self.is_delivered = False
        """The server has taken the last byte."""
        self.limit_headers: Callable[[], tuple[Header, ...]] = tuple
        """What is left of the caller's limits, asked for when the answer begins."""

    async def whole(self, status: int, headers: tuple[Header, ...], body: bytes) -> None:
        self.is_begun = True
        await self._start(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    *headers,
                    (b"x-request-id", self.request_id.encode()),
                    *self.limit_headers(),
                ],
            }
        )
        self.is_ended = True
        await self._send({"type": "http.response.body", "body": body})
        self.is_delivered = True

    async def json(self, body: bytes, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        fixed: tuple[Header, ...] = (
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        )
        await self.whole(status, (*fixed, *headers), body)

    async def begin_stream(self, *, headers: tuple[Header, ...] = ()) -> None:
        self.is_begun = True
        await self._start(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", CONTENT_TYPE),
                    (b"cache-control", b"no-cache"),
                    (b"x-accel-buffering", b"no"),
                    (b"x-request-id", self.request_id.encode()),
                    *headers,
                    *self.limit_headers(),
                ],
            }
        )

    async def begin_download(self, *, headers: tuple[Header, ...]) -> None:
        """A file whose length nobody knows yet: `frame` for its parts, then `end_download`. It has no
        way to tell of an error but to break off."""
        self.is_begun = True
        await self._start(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [*headers, (b"x-request-id", self.request_id.encode())],
            }
        )

    async def end_download(self) -> None:
        self.is_ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        self.is_delivered = True

    async def _start(self, message: dict[str, Any]) -> None:
        """Who is interrupted while the status waits for its turn has not said anything yet."""
        self._is_beginning = True
        try:
            await self._send(message)
        except BaseException:
            self.is_begun = False
            raise
        finally:
            self._is_beginning = False

    async def frame(self, frame: bytes) -> None:
        await self._send({"type": "http.response.body", "body": frame, "more_body": True})

    async def comment(self, *, headers: tuple[Header, ...] = ()) -> None:
        """A sign of life, behind a stream's headers where nothing was said so far. Nothing where the answer
        has ended, or where another task's status waits for its turn: that is a sign of life itself,
        and nothing may come before it."""
        if self.is_ended or self._is_beginning:
            return
        if not self.is_begun:
            await self.begin_stream(headers=headers)
        await self.frame(KEEP_ALIVE)

    async def end_stream(self, last: bytes) -> None:
        """Send `last`, and close."""
        self.is_ended = True
        await self._send({"type": "http.response.body", "body": last, "more_body": False})
        self.is_delivered = True

    async def error(
        self, error: SkippyError, *, allow: tuple[str, ...] = (), headers: tuple[Header, ...] = ()
    ) -> None:
        """Tell the caller, in whichever way is still open: a status, which comes with `headers`, a frame, or
        not at all."""
        if self.is_ended:
            return
        if self.is_begun:
            await self.end_stream(self.error_event(error))
            return
        answer = self._dialect.error_response(error, request_id=self.request_id, allow=allow)
        await self.whole(answer.status, (*answer.headers, *headers), answer.body)
