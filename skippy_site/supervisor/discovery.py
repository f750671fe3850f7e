"""Finds the database and the broker from any process that knows the state folder.

`make serve` runs in one shell, `manage.py api_key_create` in another: the second must reach the
first one's database without being told. What is given explicitly wins, then what the running
supervisor wrote down, then the place at which the embedded services always are.

Imported by the settings of every process: cheap, and without side effects.
"""

from __future__ import annotations

import os

import msgspec

from skippy_site.env import Environment
from skippy_site.state import StateFolder
from skippy_site.supervisor.postgres_location import current_location
from skippy_site.supervisor.urls import (
    ServiceUrls,
    broker_url_from_redis,
    redis_socket_url,
    redis_url_from_broker,
)
from skippy_site.supervisor.valkey_location import valkey_socket


def needs_embedded_postgres(environment: Environment) -> bool:
    return not environment.database_url


def needs_embedded_valkey(environment: Environment) -> bool:
    """Valkey is there to be the broker: either URL replaces it."""
    return not (environment.redis_url or environment.celery_broker_url)


def embedded_urls(state: StateFolder) -> ServiceUrls:
    """Where the embedded services of this state folder listen, running or not."""
    redis_url = redis_socket_url(valkey_socket(state))
    return ServiceUrls(
        database_url=current_location(state).url,
        redis_url=redis_url,
        broker_url=broker_url_from_redis(redis_url),
    )


def service_urls(environment: Environment, state: StateFolder) -> ServiceUrls:
    """The addresses that this process should use.

    A services file that a killed supervisor left behind does no harm: it names either the same
    embedded sockets or servers that are not ours to judge.
    """
    found = _published_urls(state) or embedded_urls(state)
    broker_url = environment.celery_broker_url
    redis_url = environment.redis_url
    if redis_url or broker_url:
        found = ServiceUrls(
            database_url=found.database_url,
            redis_url=redis_url or redis_url_from_broker(broker_url),
            broker_url=broker_url or broker_url_from_redis(redis_url),
        )
    if environment.database_url:
        found = msgspec.structs.replace(found, database_url=environment.database_url)
    return found


def publish_urls(urls: ServiceUrls, state: StateFolder) -> None:
    """Write the services file (mode 0600) so that no reader ever sees half of it."""
    target = state.services_file
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(msgspec.json.encode(urls))
    draft.rename(target)


def withdraw_urls(state: StateFolder) -> None:
    """Remove the services file at a stop."""
    state.services_file.unlink(missing_ok=True)


def database_problem(error: BaseException) -> str:
    """One line for a person whose command could not use the database; never holds a password.

    `error` is what psycopg or Django's wrapper around it raised. Only the first line of its text is
    used: the rest may be a statement with its values.
    """
    text = str(error).strip()
    first_line = text.splitlines()[0] if text else type(error).__name__
    if any(sign in text for sign in ("No such file or directory", "Connection refused", "PoolTimeout")):
        return (
            "the database is not running: start `make serve` with the same SKIPPY_HOME in another shell, "
            "or look at DATABASE_URL"
        )
    if "timeout" in first_line or "couldn't get a connection" in first_line:
        return "the database does not answer: is `make serve` running, or DATABASE_URL right?"
    if "starting up" in text or "recovery" in text:
        return "the database is starting up: try again in a moment"
    if "Permission denied" in text:
        return "the database belongs to another user: run this command as the user who runs `make serve`"
    return f"the database cannot be used: {first_line}"


def _published_urls(state: StateFolder) -> ServiceUrls | None:
    try:
        return msgspec.json.decode(state.services_file.read_bytes(), type=ServiceUrls)
    except (OSError, msgspec.DecodeError):
        return None
