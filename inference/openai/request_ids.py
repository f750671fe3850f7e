"""The name by which a caller, our logs and our records speak of one HTTP request.

A caller may bring its own, so that its traces and ours meet; but the value goes into logs, headers
and a database, so that only a UUID is taken, and in one spelling.
"""

from __future__ import annotations

import re
import uuid

HEADER = b"x-request-id"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def request_id(incoming: bytes | None = None) -> str:
    """The UUID in `incoming` (the header's value) in lower case, or a new random one."""
    if incoming is not None and len(incoming) == 36:
        text = incoming.decode("latin-1").lower()
        if _UUID.fullmatch(text):
            return text
    return str(uuid.uuid4())
