"""Answers that the server gives itself, before or instead of the application.

They look like every other error of the API at the same path: its wire's error object and an
`x-request-id`, so that a client library raises the right exception whoever refused.
"""

from __future__ import annotations

import http
import time
from email.utils import formatdate

from inference.anthropic.errors import dialect_of
from inference.domain.errors import SkippyError
from inference.openai.errors import Header, WireResponse
from inference.openai.request_ids import request_id
from skippy_site.servers.contract import Send


class _DateHeader:
    """RFC 9110 wants a Date; formatting it once a second is enough."""

    def __init__(self) -> None:
        self._second = -1
        self._text = b""

    def text(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True).encode()
        return self._text


http_date = _DateHeader().text


def refusal(
    error: SkippyError,
    *,
    path: str = "",
    incoming_id: bytes | None = None,
    cross_origin: tuple[Header, ...] = (),
) -> WireResponse:
    """The whole answer for `error` at `path`, decoded, "" where nobody knows it; `incoming_id` is the
    request's own x-request-id, if known; `cross_origin` is what `CrossOriginPolicy.answer_headers` says.

    The connection is closed after it: what the client is still sending belongs to a request that
    nobody will read.
    """
    own_id = request_id(incoming_id)
    response = dialect_of(path).error_response(error, request_id=own_id)
    extra = (
        (b"x-request-id", own_id.encode()),
        (b"connection", b"close"),
    )
    return WireResponse(response.status, (*response.headers, *extra, *cross_origin), response.body)


def headers_too_large() -> WireResponse:
    """431, bare: a header block that was not read to its end says nothing about who asks for what."""
    headers = (
        (b"content-length", b"0"),
        (b"x-request-id", request_id().encode()),
        (b"connection", b"close"),
    )
    return WireResponse(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, headers, b"")


def response_bytes(response: WireResponse, *, is_head: bool = False) -> bytes:
    """`response` as HTTP/1.1, for a socket on which no application answers."""
    lines = [f"HTTP/1.1 {response.status} {_phrase(response.status)}".encode(), b"date: " + http_date()]
    lines += [name + b": " + value for name, value in response.headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if is_head else response.body)


def _phrase(status: int) -> str:
    """The reason of a status line, which may be empty (RFC 9112 §4): not all statuses are IANA's."""
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return ""


async def send_response(send: Send, response: WireResponse) -> None:
    """`response` through an ASGI channel on which nothing was sent yet."""
    await send({"type": "http.response.start", "status": response.status, "headers": list(response.headers)})
    await send({"type": "http.response.body", "body": response.body, "more_body": False})
