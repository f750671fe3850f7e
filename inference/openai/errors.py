"""Turns an error of the tree into the one error object that every OpenAI client understands."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from accounts.keys import without_keys
from inference.domain.errors import AuthenticationFailed, MethodNotAllowed, SkippyError

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class WireResponse:
    """A whole HTTP answer: status, headers (lower-case names) and body."""

    status: int
    headers: tuple[Header, ...]
    body: bytes


def error_object(error: SkippyError) -> dict[str, object]:
    """`{"error": {message, type, param, code}}` as OpenAI's schema ErrorResponse has it. A key that was
    sent where none belongs is not repeated: errors end in other people's logs."""
    message, param = without_keys(error.message), without_keys(error.param) if error.param else error.param
    return {"error": {"message": message, "type": error.type, "param": param, "code": error.code}}


def error_response(error: SkippyError, *, allow: tuple[str, ...] = ()) -> WireResponse:
    """The HTTP answer for `error`. `allow` names the methods that a 405 offers instead."""
    body = orjson.dumps(error_object(error))
    return WireResponse(error.status, error_headers(error, body, allow=allow), body)


def error_headers(error: SkippyError, body: bytes, *, allow: tuple[str, ...] = ()) -> tuple[Header, ...]:
    """The headers of an error, whatever its JSON `body` looks like."""
    headers: list[Header] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    if not error.should_retry:
        headers.append((b"x-should-retry", b"false"))
    if isinstance(error, AuthenticationFailed):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed) and allow:
        headers.append((b"allow", ", ".join(allow).encode()))
    return tuple(headers)
