"""Where a caller is, for what only callers nearby are told.

A proxy that we were not told of stands on this machine, too, and speaks for the whole world: its address says
nothing of who asks.
"""

from __future__ import annotations

import ipaddress
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_FORWARDED = frozenset({b"x-forwarded-for", b"x-real-ip", b"forwarded"})


def caller_address(scope: Any) -> Address | None:
    """None where it is not known, or where somebody else speaks for the caller. (A proxy that we were told of
    has been resolved: the client then has no port.)"""
    client = scope.get("client")
    if client is None or (client[1] and any(name in _FORWARDED for name, _ in scope["headers"])):
        return None
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
