"""An authenticator app (RFC 6238), written apart from what is tested."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time


class TotpApp:
    def __init__(self, secret: str) -> None:
        self.secret = secret.replace(" ", "")
        self._key = base64.b32decode(self.secret)
        self.recovery_codes: list[str] = []
        self.set_up_with = ""

    def code(self, *, later: int = 0) -> str:
        """The code of now, or of so many periods later."""
        step = int(time.time()) // 30 + later
        digest = hmac.digest(self._key, step.to_bytes(8, "big"), hashlib.sha1)
        start = digest[-1] & 15
        return f"{(int.from_bytes(digest[start : start + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"
