"""How a receiver knows that a call came from this service, was not changed on its way, and is new."""

from __future__ import annotations

import hashlib
import hmac

SIGNATURE = "x-skippy-signature"


def signature(body: bytes, *, secret: str, unix_s: int) -> str:
    """`t=…,v1=…`: HMAC-SHA256 over "t.body", in hexadecimal. The time lets a receiver refuse repeats."""
    digest = hmac.new(secret.encode(), b"%d." % unix_s + body, hashlib.sha256).hexdigest()
    return f"t={unix_s},v1={digest}"
