"""Secrets of webhooks at rest: who gets hold of a copy of the database must not be able to sign in our name.

The key is derived from the service's own secret, which is in no database (HKDF, RFC 5869); the cipher is
Fernet (AES-128-CBC with HMAC-SHA256). A service whose secret was replaced still reads what was encrypted
with the one before, as long as it is told that one.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

# Names the use: what else is derived from the service's secret has another key.
_USE = b"skippy: secrets of webhooks"


class SecretUnreadable(Exception):
    """A secret was encrypted with another key, or is damaged. The message names whose it is, and the cure."""

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"the secret of webhook {owner!r} cannot be decrypted: the service's secret key is another one "
            "than when it was saved; give the old one in SKIPPY_OLD_SECRET_KEYS, or enter the secret again"
        )
        self.owner = owner


class SecretBox:
    """Encrypts with the service's secret, decrypts also with `older` ones of it. `use` names what for."""

    def __init__(self, service_secret: str, older: Sequence[str] = (), *, use: bytes = _USE) -> None:
        self._newest = _cipher(service_secret, use)
        self._cipher = MultiFernet([_cipher(secret, use) for secret in (service_secret, *older)])

    def seal(self, secret: str) -> str:
        """What may be stored: ASCII, another text each time."""
        return self._cipher.encrypt(secret.encode()).decode("ascii")

    def open(self, sealed: str, *, owner: str) -> str:
        """The secret itself. `owner` names the webhook in the error: SecretUnreadable."""
        try:
            return self._cipher.decrypt(sealed.encode()).decode()
        except (InvalidToken, UnicodeError):
            raise SecretUnreadable(owner) from None

    def sealed_anew(self, sealed: str, *, owner: str) -> str | None:
        """The same secret under the service's present one; None where it is that already. Raises
        SecretUnreadable."""
        try:
            self._newest.decrypt(sealed.encode())
        except (InvalidToken, UnicodeError):
            return self.seal(self.open(sealed, owner=owner))
        return None

    def __repr__(self) -> str:
        return "<SecretBox>"


def _cipher(service_secret: str, use: bytes) -> Fernet:
    if not service_secret:
        raise ValueError("the service's secret is empty")
    key = HKDF(SHA256(), length=32, salt=None, info=use).derive(service_secret.encode())
    return Fernet(base64.urlsafe_b64encode(key))
