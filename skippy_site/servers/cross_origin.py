"""Lets pages of other sites call the API from a browser (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol).

A browser shows a page the answers of another origin only if these say so, and asks with a preflight before
it sends a key. That holds for every answer, also for those that the servers give before the application
hears of a request: without the headers a page is told of a 401 or 413 as "network error". So the one
policy here is asked by the wrapper around the application (cross_origin_access.py) and by the servers' own
refusals.

Keys go in headers and cookies never count, so credentials are never allowed, and nothing but /v1 and /api is
ever opened. An origin that is not allowed gets what it would get if there were no such thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference.openai.errors import Header, WireResponse
from inference.openai.request_ids import request_id

ROOTS = ("/v1", "/api")
# Chromium forgets after two hours, whatever it is told.
MAX_AGE_S = 7200
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
# What OpenAI's and Anthropic's clients send from a browser, and what is read here.
REQUEST_HEADERS = (
    "accept",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "authorization",
    "content-type",
    "idempotency-key",
    "if-match",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-api-key",
    "x-capsule-client-nonce",
    "x-request-id",
    "x-requested-with",
)
# Their newer versions have more of these, so that they are allowed as they are asked for.
CLIENT_PREFIX = "x-stainless-"
MAX_ASKED_HEADERS = 64
# What a page may read beside the few headers that it always may.
ANSWER_HEADERS = (
    "content-disposition",
    "etag",
    "idempotent-replayed",
    "request-id",
    "retry-after",
    "www-authenticate",
    "x-capsule-client-nonce",
    "x-capsule-id",
    "x-capsule-nonce-origin",
    "x-ignored-parameters",
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-request-id",
    "x-should-retry",
)
_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?P<port>:[0-9]{1,5})?"
)
_TOKEN = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_VARY: Header = (b"vary", b"Origin")
_PREFLIGHT_VARY: Header = (b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
_EXPOSED: Header = (b"access-control-expose-headers", ", ".join(ANSWER_HEADERS).encode())


class CrossOriginPolicy:
    """Which origins may call, and what their browsers are told.

    `origins` are as a browser writes them (`https://app.example:8443`), or the one `*` for all. Raises
    ValueError for anything else. Without any, nothing is said. `request_headers` are allowed beside
    REQUEST_HEADERS.
    """

    def __init__(self, origins: Iterable[str] = (), *, request_headers: Iterable[str] = ()) -> None:
        named = tuple(origins)
        self._takes_all = named == ("*",)
        self._origins = frozenset() if self._takes_all else frozenset(_checked(one).encode() for one in named)
        self._request_headers = tuple(
            dict.fromkeys([*REQUEST_HEADERS, *(name.lower() for name in request_headers)])
        )

    def __repr__(self) -> str:
        which = "all" if self._takes_all else b", ".join(sorted(self._origins)).decode() or "none"
        return f"<CrossOriginPolicy for {which}>"

    @property
    def is_used(self) -> bool:
        return self._takes_all or bool(self._origins)

    def answer_headers(self, path: str, origins: Sequence[bytes]) -> tuple[Header, ...]:
        """What an answer at `path` (decoded) has to say; `origins` are the values of the request's Origin
        headers. Also where it has none: what a cache keeps of it must not be shown to another origin."""
        if not self.is_used or not _is_covered(path):
            return ()
        if self._takes_all and b"null" not in origins:
            return ((b"access-control-allow-origin", b"*"), _EXPOSED)
        if not self._allows(origins):
            return (_VARY,)
        return (_VARY, (b"access-control-allow-origin", origins[0]), _EXPOSED)

    def preflight(self, scope: Mapping[str, Any]) -> WireResponse | None:
        """The answer to a browser's question whether it may ask, which needs no key; None where this is no
        such question, or not one of an origin that is allowed.

        What is not at a path, or not with that method, is told by the request itself: a page can read a 404
        or 405, of a refused preflight it learns nothing.
        """
        if scope["method"] != "OPTIONS" or not self.is_used or not _is_covered(scope["path"]):
            return None
        origins = header_values(scope, b"origin")
        if not self._allows(origins) or not header_values(scope, b"access-control-request-method"):
            return None
        asked = b",".join(header_values(scope, b"access-control-request-headers"))
        incoming = header_values(scope, b"x-request-id")
        allowed = ", ".join((*self._request_headers, *_client_headers(asked)))
        headers: tuple[Header, ...] = (
            (b"access-control-allow-origin", b"*" if self._takes_all else origins[0]),
            (b"access-control-allow-methods", METHODS.encode()),
            (b"access-control-allow-headers", allowed.encode()),
            (b"access-control-max-age", str(MAX_AGE_S).encode()),
            (b"x-request-id", request_id(incoming[0] if incoming else None).encode()),
            _PREFLIGHT_VARY,
        )
        return WireResponse(204, headers, b"")

    def _allows(self, origins: Sequence[bytes]) -> bool:
        if len(origins) != 1:
            return False
        return origins[0] != b"null" if self._takes_all else origins[0] in self._origins


NOBODY = CrossOriginPolicy()


def _is_covered(path: str) -> bool:
    return any(path == root or path.startswith(root + "/") for root in ROOTS)


def header_values(scope: Mapping[str, Any], name: bytes) -> list[bytes]:
    """All values of one header of a request; its name is in lower case."""
    return [value for key, value in scope["headers"] if key == name]


def _client_headers(asked: bytes) -> list[str]:
    """Those of the asked headers that are allowed by their beginning."""
    names = [name.strip().lower() for name in asked.decode("latin-1").split(",")[:MAX_ASKED_HEADERS]]
    return [
        name
        for name in dict.fromkeys(names)
        if name.startswith(CLIENT_PREFIX) and len(name) <= MAX_ASKED_HEADERS and _TOKEN.fullmatch(name)
    ]


def _checked(origin: str) -> str:
    """An origin as browsers send it: in lower case, without the scheme's own port."""
    if origin == "*":
        raise ValueError("* stands for all origins, so nothing can be beside it")
    if origin.lower() == "null":
        raise ValueError("null is what any page in a sandbox sends, so it cannot be allowed")
    found = _ORIGIN.fullmatch(origin.lower())
    if found is None or int((found["port"] or ":1")[1:]) not in range(1, 65_536):
        raise ValueError(
            f"{origin!r} is not an origin such as https://app.example:8443: scheme and host in ASCII, a port "
            "perhaps, no path, no pattern"
        )
    return found[0].removesuffix(_DEFAULT_PORTS.get(found["scheme"], "\0"))
