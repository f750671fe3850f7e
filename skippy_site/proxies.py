"""Believes X-Forwarded-For and X-Forwarded-Proto, but only from the proxies that the operator named.

Anybody can send these headers; behind a proxy they are the only way to know the client. So they
count where the peer's own address is in `SKIPPY_TRUSTED_PROXIES`, and are ignored everywhere else.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any

Application = Callable[[Any, Any, Any], Awaitable[None]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """ASGI middleware: puts the true client address and scheme into the scope."""

    def __init__(self, application: Application, networks: tuple[str, ...]) -> None:
        self._application = application
        self._networks: tuple[Network, ...] = tuple(
            ipaddress.ip_network(text, strict=False) for text in networks
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._networks and scope["type"] in ("http", "websocket") and self._trusts(_host(scope)):
            scope = {**scope, **self._forwarded(scope)}
        await self._application(scope, receive, send)

    def _forwarded(self, scope: Any) -> dict[str, Any]:
        values = {name: value.decode("latin-1") for name, value in scope["headers"]}
        found: dict[str, Any] = {}
        scheme = values.get(b"x-forwarded-proto", "").split(",")[-1].strip().lower()
        if scheme in ("http", "https"):
            secure = {"http": "ws", "https": "wss"} if scope["type"] == "websocket" else {}
            found["scheme"] = secure.get(scheme, scheme)
        hops = [hop.strip() for hop in values.get(b"x-forwarded-for", "").split(",") if hop.strip()]
        # From the right: each proxy appends its peer, so the first that we do not trust is the client.
        for hop in reversed(hops):
            if not _is_address(hop):
                break
            found["client"] = (hop, 0)
            if not self._trusts(hop):
                break
        return found

    def _trusts(self, host: str | None) -> bool:
        if host is None or not _is_address(host):
            return False
        address = ipaddress.ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)


def _host(scope: Any) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
