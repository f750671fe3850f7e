"""The headers that name an exchange for those who audit it.

    x-capsule-id             a policy's marker of this answer; only on whole answers that succeeded
    x-capsule-client-nonce   the client's own (exactly one UUID of version 4), or else one that is made here
    x-capsule-nonce-origin   "frontend" where it was made here; what a client sends under this name is ignored

The nonce is told where there is a marker, and where the client sent one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import uuid4

from inference.openai.errors import Header

CAPSULE_ID = b"x-capsule-id"
CLIENT_NONCE = b"x-capsule-client-nonce"
NONCE_ORIGIN = b"x-capsule-nonce-origin"
MAX_ID_CHARS = 1024
_FRONTEND = b"frontend"
_UUID4 = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# RFC 9110's field values, without the octets over ASCII, which no two readers agree on.
_FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")


def nonce_headers(sent: Sequence[Header]) -> tuple[Header, ...]:
    """Of an answer to a request with the headers `sent`, whose names are in lower case; none where the client
    said nothing of it."""
    nonces = [value for name, value in sent if name == CLIENT_NONCE]
    return _nonce(nonces) if nonces else ()


def capsule_headers(sent: Sequence[Header], marker: tuple[str, str | None] | None) -> tuple[Header, ...]:
    """Of a whole answer that succeeded. `marker` is the policies': an id, and a nonce that goes before the
    client's. An id that is no header's value is none."""
    if marker is None or not is_capsule_id(marker[0]):
        return nonce_headers(sent)
    capsule_id, nonce = marker
    nonces = [value for name, value in sent if name == CLIENT_NONCE]
    if nonce is not None and is_capsule_id(nonce):
        return ((CAPSULE_ID, capsule_id.encode()), (CLIENT_NONCE, nonce.encode()))
    return ((CAPSULE_ID, capsule_id.encode()), *_nonce(nonces))


def is_capsule_id(text: str) -> bool:
    return len(text) <= MAX_ID_CHARS and _FIELD_VALUE.fullmatch(text) is not None


def _nonce(nonces: Sequence[bytes]) -> tuple[Header, ...]:
    if len(nonces) == 1:
        nonce = nonces[0].strip().lower()
        if _UUID4.fullmatch(nonce):
            return ((CLIENT_NONCE, nonce),)
    return ((CLIENT_NONCE, str(uuid4()).encode()), (NONCE_ORIGIN, _FRONTEND))
