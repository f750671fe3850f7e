"""The header `Idempotency-Key`, by which a client names a request that it may have to send again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from inference.domain.errors import InvalidRequest

HEADER = b"idempotency-key"
MAX_NAME_BYTES = 255


def idempotency_name(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The name's SHA-256, or None without the header. Raises InvalidRequest for an empty name, one of more
    than 255 bytes, control characters, or two different names."""
    values = {value.strip(b" \t") for key, value in headers if key == HEADER}
    if not values:
        return None
    if len(values) > 1:
        raise InvalidRequest("The header Idempotency-Key names more than one key.")
    name = values.pop()
    if not 1 <= len(name) <= MAX_NAME_BYTES:
        raise InvalidRequest(f"The header Idempotency-Key must have 1 to {MAX_NAME_BYTES} bytes.")
    if any(byte < 32 or byte == 127 for byte in name):
        raise InvalidRequest("The header Idempotency-Key must not contain control characters.")
    return hashlib.sha256(name).digest()


def body_digest(endpoint: str, body: bytes) -> bytes:
    """What tells one request from another under the same name: endpoint and body, byte by byte."""
    return hashlib.sha256(endpoint.encode() + b"\0" + body).digest()
