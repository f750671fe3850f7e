"""The addresses of the services that the processes share, and how one follows from another."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

REDIS_SCHEMES = ("redis", "rediss", "unix")


class ServiceUrls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the database, Redis and Celery's broker are. They may hold passwords: never log them.

    `redis_url` is empty where Celery has a broker of another kind and no REDIS_URL is given.
    """

    database_url: str
    redis_url: str
    broker_url: str

    def __repr__(self) -> str:
        schemes = ", ".join(urlsplit(url).scheme or "none" for url in msgspec.structs.astuple(self))
        return f"ServiceUrls({schemes})"

    def as_environment(self) -> dict[str, str]:
        """What a child process needs to find the same services."""
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "CELERY_BROKER_URL": self.broker_url,
        }


def redis_socket_url(socket: Path) -> str:
    """A Unix socket as redis-py writes it."""
    return f"unix://{quote(str(socket))}"


def broker_url_from_redis(redis_url: str) -> str:
    """The same server as Celery writes it: kombu knows Unix sockets as redis+socket://."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    return _rewritten("redis+socket", parts, query=parts.query.replace("db=", "virtual_host="))


def redis_url_from_broker(broker_url: str) -> str:
    """The broker as a Redis URL, if it is a Redis; else an empty string."""
    parts = urlsplit(broker_url)
    if parts.scheme == "redis+socket":
        return _rewritten("unix", parts, query=parts.query.replace("virtual_host=", "db="))
    return broker_url if parts.scheme in REDIS_SCHEMES else ""


def _rewritten(scheme: str, parts: SplitResult, *, query: str) -> str:
    # Not urlunsplit: it drops the "//" of schemes that it does not know when there is no host.
    return f"{scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}"
