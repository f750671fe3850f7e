"""What an API key looks like, and how one is told from noise without asking a database.

A key that leaks should be found by secret scanners, a mistyped one refused without a query, and a
stolen table should open nothing. So a key is

    sk-skippy-<43 characters><6 characters>

- 43 base-62 characters (0-9 A-Z a-z): 256 bits from the system's randomness, zero-padded
  (62^43 > 2^256). With that much entropy a plain SHA-256 is a safe thing to store: there is
  nothing to guess, so a slow password hash would only cost time on every request.
- 6 base-62 characters: CRC-32 (zlib's polynomial) over everything before them, the way GitHub's
  tokens carry theirs (62^6 > 2^32). A CRC-32 finds every change of one character.

For secret scanners: `\\bsk-skippy-[0-9A-Za-z]{49}\\b`; verify with `is_well_formed`. What begins with
`PASS_PREFIX` is no key: accounts/passes.py.

Standard library only. Nothing here ever puts a key into an exception, a log line or a repr.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PREFIX = "sk-skippy-"
PASS_PREFIX = PREFIX + "pass-"
SECRET_BITS = 256
SECRET_LENGTH = 43
CHECKSUM_LENGTH = 6
KEY_LENGTH = len(PREFIX) + SECRET_LENGTH + CHECKSUM_LENGTH

# Shown to people so that they can tell keys apart: 36 of 256 bits, and the last four characters,
# which belong to the checksum. What is between the two is the secret part and is shown once.
VISIBLE_PREFIX_LENGTH = len(PREFIX) + 6
LAST_LENGTH = 4

# Room for the scheme, the key and a little white space; what is longer is refused unread.
MAX_HEADER_BYTES = 256

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{SECRET_LENGTH + CHECKSUM_LENGTH}}}")
_LEAKED = re.compile(
    rf"({PREFIX}[0-9A-Za-z]{{{VISIBLE_PREFIX_LENGTH - len(PREFIX)}}})[0-9A-Za-z]+"
    rf"|({PASS_PREFIX})[0-9A-Za-z_.-]+"
)
_BEARER = re.compile(
    rb"[ \t]*(?i:bearer)[ \t]+(%s[0-9A-Za-z]{%d})[ \t]*"
    % (PREFIX.encode("ascii"), SECRET_LENGTH + CHECKSUM_LENGTH)
)


@dataclass(frozen=True, slots=True, repr=False)
class MintedKey:
    """A new key, at the one moment at which its plaintext exists. Its repr does not show it."""

    plaintext: str
    digest: str
    visible_prefix: str
    last4: str

    def __repr__(self) -> str:
        return f"MintedKey({self.visible_prefix}…{self.last4})"


def mint() -> MintedKey:
    """A key that nobody has had before: 256 fresh bits and their checksum."""
    body = PREFIX + _base62(secrets.randbits(SECRET_BITS), SECRET_LENGTH)
    plaintext = body + _checksum(body)
    return MintedKey(
        plaintext=plaintext,
        digest=digest_of(plaintext),
        visible_prefix=plaintext[:VISIBLE_PREFIX_LENGTH],
        last4=plaintext[-LAST_LENGTH:],
    )


def digest_of(text: str) -> str:
    """SHA-256 as 64 hexadecimal characters: what is stored, and what a key is looked up by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_well_formed(text: str) -> bool:
    """Whether `text` has the form and the checksum of a key; says nothing of whether it is one."""
    if len(text) != KEY_LENGTH or _KEY.fullmatch(text) is None:
        return False
    return _checksum(text[:-CHECKSUM_LENGTH]) == text[-CHECKSUM_LENGTH:]


def without_keys(text: str) -> str:
    """The text with all but the visible beginning of each API key and pass replaced. For what is logged,
    stored or told of what a caller sent: keys get into model names, paths and tracebacks by mistake."""
    return _LEAKED.sub(r"\1\2…", text) if PREFIX in text else text


def read_bearer(header: bytes | None) -> str | None:
    """The well-formed key in the value of one Authorization header, or None for anything else.

    The scheme is case-insensitive (RFC 9110 §11.1), the key is not; exactly one token may follow.
    The cost is bounded by `MAX_HEADER_BYTES`, however long the header is.
    """
    if header is None or len(header) > MAX_HEADER_BYTES:
        return None
    match = _BEARER.fullmatch(header)
    if match is None:
        return None
    text = match[1].decode("ascii")
    return text if is_well_formed(text) else None


def read_api_key(header: bytes | None) -> str | None:
    """The well-formed key in the value of one x-api-key header, where Anthropic's clients put it; None
    for anything else. Bounded as `read_bearer` is."""
    if header is None or len(header) > MAX_HEADER_BYTES:
        return None
    text = header.strip(b" \t").decode("ascii", "replace")
    return text if is_well_formed(text) else None


def read_credentials(authorizations: Sequence[bytes], api_keys: Sequence[bytes]) -> str | None:
    """The one key that a request shows, given the values of all its Authorization and x-api-key headers;
    None where it shows none, or two.

    Two headers of one kind are refused, whatever is in them, and so are two that differ: proxies and
    servers disagree on which of them counts, and a caller must not profit from that. Clients that send
    the same key in both ways (Anthropic's do) are understood.
    """
    if len(authorizations) > 1 or len(api_keys) > 1:
        return None
    shown = {read_bearer(value) for value in authorizations} | {read_api_key(value) for value in api_keys}
    return shown.pop() if len(shown) == 1 else None


def read_key_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The same for a whole list of ASGI headers (lower-case names)."""
    return read_credentials(*credential_values(headers))


def credential_values(headers: Iterable[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    """The values of all Authorization and of all x-api-key headers among these."""
    authorizations: list[bytes] = []
    api_keys: list[bytes] = []
    for name, value in headers:
        if name == b"authorization":
            authorizations.append(value)
        elif name == b"x-api-key":
            api_keys.append(value)
    return authorizations, api_keys


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode("ascii")), CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
