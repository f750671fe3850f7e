"""What can be decided on the headers alone, before a byte of the body is read.

A body of 400 MB without a key would otherwise be spooled in full, only to be refused; and Daphne
shows the application nothing before the last byte is in. So the servers ask here first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from accounts.contracts import KeyState
from accounts.keys import read_credentials
from accounts.passes import read_pass
from accounts.refusals import KEY_REFUSALS, NO_KEY
from inference.domain.errors import (
    AuthenticationFailed,
    InvalidRequest,
    PayloadTooLarge,
    RequestTimeout,
    ServiceUnavailable,
    SkippyError,
)
from skippy_site.servers.contract import ListenConfig


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The part of a request's head that the rules look at.

    `target` is the raw request target; `content_length` is None for a chunked body; `authorizations`
    and `api_keys` have the values of all Authorization and all x-api-key headers.
    """

    method: bytes
    target: bytes
    content_length: int | None
    authorizations: Sequence[bytes] = ()
    api_keys: Sequence[bytes] = ()


class EarlyRules:
    """Says which requests are refused by their head. Knows the form of a key, not who it belongs to."""

    def __init__(self, config: ListenConfig) -> None:
        self._config = config
        self.cross_origin = config.cross_origin

    def refuse(self, head: RequestHead, *, is_draining: bool) -> SkippyError | None:
        """The error to answer with, or None to read on.

        While draining everything but the probes is 503. A declared length over the limit is 413
        everywhere. Under /v1 a request needs something that looks like a key (401), except for
        CORS preflights, which browsers send without one.
        """
        path = target_path(head.target)
        if is_draining and path not in self._config.probe_paths:
            return ServiceUnavailable("The service is stopping; try again in a moment.")
        if head.content_length is not None and head.content_length > self._config.max_body_bytes:
            return self.body_too_large()
        if (path == "/v1" or path.startswith("/v1/")) and head.method != b"OPTIONS":
            return _credential_problem(head)
        return None

    def body_too_large(self) -> SkippyError:
        limit = self._config.max_body_bytes
        return PayloadTooLarge(f"The request body is larger than the limit of {limit} bytes.")

    def request_too_slow(self) -> SkippyError:
        return RequestTimeout("The request did not arrive in time.")

    def malformed_request(self) -> SkippyError:
        return InvalidRequest("The request is not valid HTTP/1.1.")

    def too_many_connections(self) -> SkippyError:
        return ServiceUnavailable("The service has too many open connections.", retry_after_s=1)

    def too_many_bodies(self) -> SkippyError:
        return ServiceUnavailable("Too many large requests are arriving at once.", retry_after_s=1)


def target_path(target: bytes) -> str:
    """The decoded path of a raw request target, as the application's scope will have it.

    Also for the absolute form (`GET http://host/path`), which RFC 9112 obliges servers to accept.
    """
    path = origin_form(target).partition(b"?")[0]
    return (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")


def origin_form(target: bytes) -> bytes:
    """`target` without scheme and authority, if it has them."""
    if target[:7].lower() == b"http://" or target[:8].lower() == b"https://":
        authority_and_rest = target.partition(b"//")[2]
        authority, slash, rest = authority_and_rest.partition(b"/")
        if slash:
            return slash + rest
        return b"/?" + authority.partition(b"?")[2] if b"?" in authority else b"/"
    return target


def _credential_problem(head: RequestHead) -> SkippyError | None:
    if not head.authorizations and not head.api_keys:
        return AuthenticationFailed(NO_KEY)
    if (
        read_credentials(head.authorizations, head.api_keys) is None
        and read_pass(head.authorizations, head.api_keys) is None
    ):
        return AuthenticationFailed(KEY_REFUSALS[KeyState.UNKNOWN].message)
    return None
