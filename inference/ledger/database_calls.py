"""Calls of Django's ORM from the event loop, for what is not on the path of every request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from channels.db import database_sync_to_async
from django.db import Error as DatabaseFailure

from inference.domain.errors import ServiceUnavailable

T = TypeVar("T")

PATIENCE_S = 5.0


async def in_database(call: Callable[[], T]) -> T:
    """The result of `call`, made on a thread with a connection of the pool. Raises ServiceUnavailable where
    the database does not answer in time; the call may have been made all the same."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            result: T = await database_sync_to_async(call, thread_sensitive=False)()
            return result
    except (DatabaseFailure, TimeoutError):
        raise ServiceUnavailable("The database does not answer. Please retry shortly.") from None
