"""Posts an alert to a URL, signed, and to nowhere that the URL's owner should not reach through us.

Who may set the URL could otherwise have this machine knock at its own network: the addresses of the
host are looked up once, each must be a public one (unless that is allowed), and the connection goes to the
address that was checked, whatever the name says a moment later. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from hooks.outbound.addresses import may_reach
from hooks.outbound.signatures import SIGNATURE, signature
from inference.models import Alert

LIMIT_S = 10.0
Resolve = Callable[[str, int], list[str]]


class WebhookFailed(Exception):
    """The alert did not arrive; the message names no address and no secret."""


def addresses_of(host: str, port: int) -> list[str]:
    """All addresses of a host, as text."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise WebhookFailed("the host has no address") from None
    return [str(address[4][0]) for address in found]


@dataclass(frozen=True, slots=True, repr=False)
class Webhook:
    """`secret` signs; `allows_private` lets the URL be in a network of ours. Its repr shows neither the
    secret nor the URL, whose path often is one."""

    url: str
    secret: str
    allows_private: bool = False
    resolve: Resolve = addresses_of

    def __repr__(self) -> str:
        return f"Webhook({urlsplit(self.url).hostname})"

    def tell(self, alert: Alert) -> None:
        """Raises WebhookFailed unless the answer is 2xx."""
        body = json.dumps(
            {
                "type": "alert",
                "id": alert.id,
                "kind": alert.kind,
                "subject": alert.subject,
                "message": alert.message,
                "opened_at": alert.opened_at.isoformat(),
            }
        ).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Skippy",
            SIGNATURE: signature(body, secret=self.secret, unix_s=int(time.time())),
        }
        try:
            status = self._post(body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise WebhookFailed(type(error).__name__) from None
        if not 200 <= status < 300:
            raise WebhookFailed(f"status {status}")

    def _post(self, body: bytes, headers: dict[str, str]) -> int:
        parts = urlsplit(self.url)
        host, is_secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if is_secure else 80)
        link = socket.create_connection((self._checked_address(host, port), port), timeout=LIMIT_S)
        try:
            if is_secure:
                link = ssl.create_default_context().wrap_socket(link, server_hostname=host)
            client = http.client.HTTPConnection(host, port, timeout=LIMIT_S)
            client.sock = link
            path = parts.path or "/"
            client.request("POST", f"{path}?{parts.query}" if parts.query else path, body, headers)
            return client.getresponse().status
        finally:
            link.close()

    def _checked_address(self, host: str, port: int) -> str:
        """One of its addresses, where every one of them may be called."""
        addresses = self.resolve(host, port)
        if not addresses:
            raise WebhookFailed("the host has no address")
        if not all(may_reach(address, allows_private=self.allows_private) for address in addresses):
            raise WebhookFailed("the host has an address that is not public")
        return addresses[0]
