"""Which servers may be called.

A server that calls what others name can be made to reach what only it can reach: the cloud's metadata, a
database on the next machine, itself. So an administrator lists hosts; and whatever a name on that list
resolves to at that moment, only public addresses are connected to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

# IPv6 addresses that stand for IPv4 ones which a gateway translates: those of the world's (RFC 6052), which
# is how a machine without IPv4 reaches them, and those of a network's own choice (RFC 8215).
_TRANSLATED, _LOCALLY_TRANSLATED = IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48")
# Of the protocols themselves (RFC 6890); this Python counts some of them as global.
_PROTOCOLS = IPv4Network("192.0.0.0/24")
# Where clouds tell machines their settings and credentials, apart from 169.254.0.0/16: AWS over IPv6,
# Alibaba, Azure. The last one counts as public everywhere else.
_CLOUD = frozenset({ip_address("fd00:ec2::254"), ip_address("100.100.100.200"), ip_address("168.63.129.16")})
_PORTS = {"http": 80, "https": 443}
MAX_URL_CHARS = 4096
_HOST_RULE = re.compile(r"(\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*)(:[0-9]{1,5})?")


class AddressRefused(ValueError):
    """A URL, or what is behind it, may not be called. The message begins with "its", and shows none of it."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A checked URL, in the parts that a request needs. `host` is lower case, ASCII."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def is_default_port(self) -> bool:
        return self.port == _PORTS[self.scheme]


def web_address(url: str) -> WebAddress:
    """Raises AddressRefused unless the URL is one of http or https, without a user or a password in it."""
    if len(url) > MAX_URL_CHARS or any(ord(one) <= 32 or ord(one) == 127 for one in url):
        raise AddressRefused("its URL is malformed")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").encode("idna").decode("ascii")
        port = parts.port
    except (ValueError, UnicodeError):
        raise AddressRefused("its URL is malformed") from None
    if parts.scheme not in _PORTS:
        raise AddressRefused("its URL is not one of http or https")
    if not host or parts.username is not None or parts.password is not None or "\\" in url:
        raise AddressRefused("its URL is malformed")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii():
        raise AddressRefused("its URL is malformed")
    return WebAddress(parts.scheme, host, port or _PORTS[parts.scheme], target)


class AllowedHosts:
    """An administrator's list: `images.example.com`, `*.example.com` (any name below it), `*` (any at
    all), each with `:port` where it is not that of the scheme."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        """Raises ValueError with one sentence that shows the rule at fault."""
        self._rules: set[tuple[str, int | None]] = set()
        for rule in rules:
            lowered = rule.lower()
            if not _HOST_RULE.fullmatch(lowered):
                raise ValueError(f"expected hosts like example.com or *.example.com:8443, not {rule!r}")
            host, _, port = lowered.partition(":")
            if port and not 1 <= int(port) <= 65_535:
                raise ValueError(f"there is no port {port}: {rule!r}")
            self._rules.add((host, int(port) if port else None))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def check(self, url: str) -> WebAddress:
        """Raises AddressRefused unless the URL is one of http or https to a host on the list."""
        address = web_address(url)
        if not self._has(address):
            raise AddressRefused("its host is not one that may be called")
        return address

    def _has(self, address: WebAddress) -> bool:
        ports: list[int | None] = [address.port]
        if address.is_default_port:
            ports.append(None)
        names = [address.host, "*"]
        labels = address.host.split(".")
        names += ["*." + ".".join(labels[index:]) for index in range(1, len(labels))]
        return any((name, port) in self._rules for name in names for port in ports)


def is_public(text: str) -> bool:
    """Whether an IP address is one of the open internet: not this machine, nor its network, nor one that
    stands for such an address in disguise."""
    address = _unwrapped(text)
    if address is None or address in _CLOUD or (isinstance(address, IPv4Address) and address in _PROTOCOLS):
        return False
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or address.is_loopback
        or (isinstance(address, IPv6Address) and address.is_site_local)
    )


def may_reach(text: str, *, allows_private: bool) -> bool:
    """Whether an IP address may be connected to. `allows_private`: also one of this machine or of its
    network, but never where clouds tell machines their credentials (link-local addresses among them)."""
    if is_public(text) or not allows_private:
        return is_public(text)
    address = _unwrapped(text)
    return address is not None and not (
        address in _CLOUD
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        # The loopback of IPv6 lies in a reserved block.
        or (address.is_reserved and not address.is_loopback)
    )


def _unwrapped(text: str) -> IPv4Address | IPv6Address | None:
    """What an address stands for; None for none, and for those that stand for one which nobody can know."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
        if address.sixtofour or address.teredo or address in _LOCALLY_TRANSLATED:
            return None
    return address
