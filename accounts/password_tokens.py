"""What the token of a password link looks like: 256 random bits behind a prefix by which it is known
anywhere.

A link travels through chats, mails and the logs of proxies. Its prefix lets us black it out wherever a line
of ours would repeat it, and lets a page refuse everything else without asking the database. As with API keys
a plain SHA-256 is a safe thing to store: there is nothing to guess. Standard library only.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

PREFIX = "sl-skippy-"
SECRET_BYTES = 32
_SECRET_LENGTH = 43  # of 32 bytes in base64url, without padding
_TOKEN = re.compile(rf"{PREFIX}[0-9A-Za-z_-]{{{_SECRET_LENGTH}}}")
_LEAKED = re.compile(rf"{PREFIX}[0-9A-Za-z_-]+")


@dataclass(frozen=True, slots=True, repr=False)
class MintedToken:
    """A new token, at the one moment at which its plaintext exists. Its repr does not show it."""

    plaintext: str
    digest: str

    def __repr__(self) -> str:
        return f"MintedToken({PREFIX}…)"


def mint() -> MintedToken:
    plaintext = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    return MintedToken(plaintext, digest_of(plaintext))


def digest_of(token: str) -> str:
    """SHA-256 as 64 hexadecimal characters: what is stored, and what a link is looked up by."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_well_formed(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def without_tokens(text: str) -> str:
    """The text with the secret part of each token replaced, for what is logged."""
    return _LEAKED.sub(f"{PREFIX}…", text) if PREFIX in text else text
