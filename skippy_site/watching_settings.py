"""The settings of those who watch the service: logs, telemetry, metrics, retention, alerts.

A part of the environment (env.py), in a file of its own because there are many.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from skippy_site.people_settings import PeopleSettings


class WatchingSettings(PeopleSettings, frozen=True, kw_only=True):
    """See the module."""

    log_format: Annotated[
        Literal["line", "json"], Meta(description="log lines for people, or JSON objects with the request id")
    ] = "line"
    telemetry: Annotated[
        Literal["off", "summary", "debug"],
        Meta(
            description="what is told of requests beside their records; debug adds a span for each phase, "
            "for collectors only"
        ),
    ] = "summary"
    telemetry_stderr: Annotated[
        str,
        Meta(
            max_length=20,
            description="telemetry as JSON lines on standard error, at debug where `SKIPPY_TELEMETRY` is "
            "off; blank, 0, false, no and off do not",
        ),
    ] = ""
    otlp_endpoint: Annotated[
        str, Meta(description="base URL of a collector that takes traces over OTLP/HTTP; empty: none")
    ] = ""
    telemetry_retention_days: Annotated[
        int, Meta(ge=1, le=3650, description="how long events of telemetry are kept in the database")
    ] = 14
    record_retention_days: Annotated[
        int,
        Meta(ge=0, le=36_500, description="how long records are kept, by whole months; 0: for ever"),
    ] = 0
    usage_retention_days: Annotated[
        int, Meta(ge=0, le=36_500, description="how long hourly usage is kept; 0: for ever")
    ] = 0
    metrics_networks: Annotated[
        str,
        Meta(description="comma-separated networks from which /metrics may be read without a key"),
    ] = "127.0.0.0/8,::1/128"
    alert_webhook_url: Annotated[
        str, Meta(description="where alerts are posted to, as signed JSON; empty: nowhere")
    ] = ""
    alert_webhook_secret: Annotated[
        str, Meta(description="what they are signed with; needed with the URL")
    ] = ""
    alert_webhook_private: Annotated[
        bool, Meta(description="the URL may be at an address that is not public")
    ] = False
    alert_email: Annotated[str, Meta(description="comma-separated addresses that get alerts by mail")] = ""
    email_from: Annotated[str, Meta(description="the sender of mails; default: webmaster@localhost")] = ""
    email_url: Annotated[
        str,
        Meta(
            description="mail server, such as smtp+tls://user:password@mail.example:587; default: localhost"
        ),
    ] = ""
    alert_error_rate: Annotated[
        float,
        Meta(ge=0, le=1, description="share of failed requests in ten minutes that is an alert; 0: none"),
    ] = 0.1

    @property
    def metrics_networks_text(self) -> tuple[str, ...]:
        return parts_of(self.metrics_networks)

    @property
    def alert_addresses(self) -> tuple[str, ...]:
        return parts_of(self.alert_email)

    def check_watching(self) -> None:
        """Raises ValueError with a line that names the setting at fault."""
        check_networks("SKIPPY_METRICS_NETWORKS", self.metrics_networks_text)
        check_http_url("SKIPPY_OTLP_ENDPOINT", self.otlp_endpoint)
        check_http_url("SKIPPY_ALERT_WEBHOOK_URL", self.alert_webhook_url)
        if self.alert_webhook_url and len(self.alert_webhook_secret) < 16:
            raise ValueError("SKIPPY_ALERT_WEBHOOK_SECRET: needed, of 16 characters at least")
        if any("@" not in address for address in self.alert_addresses):
            raise ValueError("SKIPPY_ALERT_EMAIL: not a mail address")
        if self.email_url and urlsplit(self.email_url).scheme not in ("smtp", "smtp+tls", "smtp+ssl"):
            raise ValueError("SKIPPY_EMAIL_URL: not an smtp://, smtp+tls:// or smtp+ssl:// URL")


def parts_of(text: str) -> tuple[str, ...]:
    """What is between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def check_networks(name: str, networks: tuple[str, ...]) -> None:
    """Raises ValueError for what is no network."""
    for network in networks:
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError:
            raise ValueError(f"{name}: {network!r} is not a network") from None


def check_http_url(name: str, url: str) -> None:
    """Raises ValueError for what is neither empty nor an http(s) URL with a host."""
    if not url:
        return
    parts = urlsplit(url)
    try:
        has_host = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        has_host = False
    if parts.scheme not in ("http", "https") or not has_host:
        raise ValueError(f"{name}: not an http(s) URL with a host")
