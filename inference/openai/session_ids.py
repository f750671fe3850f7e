"""The session that a caller names in the one header which the operator chose for that.

Body fields and `conversation` never name one: whoever writes a body could name any session.
"""

from __future__ import annotations

from collections.abc import Iterable

from inference.domain.errors import InvalidRequest

MAX_SESSION_ID_BYTES = 512


def has_header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bool:
    """Whether a caller names a session at all. `name` in lower case; empty means that none is read."""
    return bool(name) and any(key == name for key, _ in headers)


def session_id(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The session's id, or None without the header. Raises InvalidRequest for two different ones, and
    for what is not 1 to 512 bytes of UTF-8 without control characters (blanks around it do not count)."""
    values = {value.strip(b" \t") for key, value in headers if key == name} if name else set()
    if not values:
        return None
    shown = name.decode("ascii", "replace")
    if len(values) > 1:
        raise InvalidRequest(f"The header {shown} names more than one session.")
    value = values.pop()
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"The header {shown} is not UTF-8 text.") from None
    text = text.strip()
    if not 1 <= len(text.encode()) <= MAX_SESSION_ID_BYTES:
        raise InvalidRequest(f"The header {shown} must have 1 to {MAX_SESSION_ID_BYTES} bytes.")
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        raise InvalidRequest(f"The header {shown} must not contain control characters.")
    return text
