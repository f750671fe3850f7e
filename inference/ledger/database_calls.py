"""Django's database for what is not Django's: ORM calls from the event loop, connections of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from django.db import Error as DatabaseFailure
from django.db import connection

from inference.domain.errors import ServiceUnavailable

T = TypeVar("T")

PATIENCE_S = 5.0
# What Django sets for its own connections, and for nobody else's.
_DJANGO_PARAMETERS = ("context", "cursor_factory", "prepare_threshold", "connect_timeout")


async def in_database(call: Callable[[], T]) -> T:
    """The result of `call`, made on a thread with a connection of the pool. Raises ServiceUnavailable where
    the database does not answer in time; the call may have been made all the same."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            result: T = await database_sync_to_async(call, thread_sensitive=False)()
            return result
    except (DatabaseFailure, TimeoutError):
        raise ServiceUnavailable("The database does not answer. Please retry shortly.") from None


def database_parameters() -> dict[str, Any]:
    """psycopg's parameters for a connection of one's own to Django's database."""
    parameters: dict[str, Any] = connection.get_connection_params()
    return {name: value for name, value in parameters.items() if name not in _DJANGO_PARAMETERS}
