"""The settings of how clients reach the service: its URL, proxies before it, browsers of other sites.

A part of the environment (env.py).
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from skippy_site.hook_settings import HookSettings
from skippy_site.servers.cross_origin import CrossOriginPolicy
from skippy_site.watching_settings import check_networks, parts_of

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class DoorSettings(HookSettings, frozen=True, kw_only=True):
    """See the module."""

    public_url: Annotated[
        str,
        Meta(description="URL that people use; https turns on HSTS and Secure cookies"),
    ] = ""
    trusted_proxies: Annotated[
        str,
        Meta(description="comma-separated networks whose X-Forwarded-For and -Proto are believed"),
    ] = ""
    cors_origins: Annotated[
        str,
        Meta(
            description="comma-separated origins whose pages may call /v1 and /api with a key, such as "
            "https://app.example:8443, or * for all; empty: none"
        ),
    ] = ""
    session_header: Annotated[
        str,
        Meta(
            max_length=100,
            description="the one header in which callers with session trust name their session; empty: none",
        ),
    ] = ""

    @property
    def trusted_networks_text(self) -> tuple[str, ...]:
        return parts_of(self.trusted_proxies)

    @property
    def is_https(self) -> bool:
        return self.public_url.startswith("https://")

    @property
    def cross_origin(self) -> CrossOriginPolicy:
        """Whose pages may call from a browser. Raises ValueError with one line."""
        try:
            return CrossOriginPolicy(
                parts_of(self.cors_origins), request_headers=filter(None, [self.session_header])
            )
        except ValueError as problem:
            raise ValueError(f"SKIPPY_CORS_ORIGINS: {problem}") from None

    def check_doors(self) -> None:
        """Raises ValueError with one line that names the variable at fault."""
        if self.public_url:
            parts = urlsplit(self.public_url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("SKIPPY_PUBLIC_URL: not an http(s) URL with a host")
        check_networks("SKIPPY_TRUSTED_PROXIES", self.trusted_networks_text)
        _ = self.cross_origin
        if self.session_header and not _HEADER_NAME.fullmatch(self.session_header):
            raise ValueError(f"SKIPPY_SESSION_HEADER: {self.session_header!r} cannot be a header's name")
        if self.session_header.lower() in ("authorization", "cookie"):
            raise ValueError("SKIPPY_SESSION_HEADER: this header holds secrets")
