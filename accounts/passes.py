"""What a pass of the playground looks like, and how a request shows one.

The console's playground asks /v1 as everybody does, but keys are stored as hashes alone, so it has none to
show. It shows a *pass* instead, which `accounts.pass_desk` signs and reads:

    sk-skippy-pass-<key id>.<user id>.<time>.<signature>

The beginning is for who finds one where it should not be, and for `accounts.keys.without_keys`. Standard
library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from accounts.keys import MAX_HEADER_BYTES, PASS_PREFIX, credential_values

# The characters of RFC 6750's token that Django's signatures are made of.
_BEARER = re.compile(rb"[ \t]*(?i:bearer)[ \t]+(%s[0-9A-Za-z_.-]+)[ \t]*" % PASS_PREFIX.encode("ascii"))


def read_pass(authorizations: Sequence[bytes], api_keys: Sequence[bytes]) -> str | None:
    """What has the form of a pass in the values of a request's Authorization headers; None where there is
    none, or anything beside it."""
    if len(authorizations) != 1 or api_keys or len(authorizations[0]) > MAX_HEADER_BYTES:
        return None
    match = _BEARER.fullmatch(authorizations[0])
    return None if match is None else match[1].decode("ascii")


def read_pass_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The same for a whole list of ASGI headers (lower-case names)."""
    return read_pass(*credential_values(headers))
