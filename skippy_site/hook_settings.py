"""The settings of hook policies: whom their webhooks may call, and what reads their secrets.

A part of the environment (env.py), in a file of its own because there are many.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hooks.outbound.addresses import AllowedHosts
from skippy_site.speculation_settings import DraftSettings
from skippy_site.watching_settings import parts_of

MIN_SECRET_KEY_CHARS = 32


class HookSettings(DraftSettings, frozen=True, kw_only=True):
    """See the module. (Structs have one base each, so the parts of the environment stand in a row.)"""

    webhook_hosts: Annotated[
        str,
        Meta(
            description="comma-separated hosts that webhooks of policies may be at, such as example.com, "
            "*.example.com or example.com:8443; empty: any. Where private addresses are allowed is a setting "
            "of each webhook"
        ),
    ] = ""
    old_secret_keys: Annotated[
        str,
        Meta(
            description="comma-separated contents that the state folder's secret key had before: secrets of "
            "webhooks that were saved, and sessions that were begun, under one of them stay good"
        ),
    ] = ""

    def check_hooks(self) -> None:
        """Raises ValueError with one line that names the variable at fault."""
        try:
            AllowedHosts(parts_of(self.webhook_hosts))
        except ValueError as problem:
            raise ValueError(f"SKIPPY_WEBHOOK_HOSTS: {problem}") from None
        if any(len(key) < MIN_SECRET_KEY_CHARS for key in self.former_secret_keys):
            raise ValueError(
                f"SKIPPY_OLD_SECRET_KEYS: one of them has less than {MIN_SECRET_KEY_CHARS} characters"
            )

    @property
    def allowed_webhook_hosts(self) -> AllowedHosts:
        return AllowedHosts(parts_of(self.webhook_hosts))

    @property
    def former_secret_keys(self) -> tuple[str, ...]:
        return parts_of(self.old_secret_keys)
