"""The settings of who else than our own pages may call the API from a browser.

A part of the environment (env.py).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from skippy_site.hook_settings import HookSettings
from skippy_site.servers.cross_origin import CrossOriginPolicy
from skippy_site.watching_settings import parts_of


class SharingSettings(HookSettings, frozen=True, kw_only=True):
    """See the module."""

    cors_origins: Annotated[
        str,
        Meta(
            description="comma-separated origins whose pages may call /v1 and /api with a key, such as "
            "https://app.example:8443, or * for all; empty: none"
        ),
    ] = ""

    def cross_origin_for(self, session_header: str) -> CrossOriginPolicy:
        """Raises ValueError with one line that names the variable at fault."""
        try:
            return CrossOriginPolicy(
                parts_of(self.cors_origins), request_headers=[session_header] if session_header else []
            )
        except ValueError as problem:
            raise ValueError(f"SKIPPY_CORS_ORIGINS: {problem}") from None
