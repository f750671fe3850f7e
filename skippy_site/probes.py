"""Asks database and broker whether they answer, briefly, and not more often than it is useful."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from channels.db import database_sync_to_async
from django.db import connection
from kombu import Connection

from inference.domain.clock import Clock

_log = logging.getLogger(__name__)

PATIENCE_S = 3.0
FRESH_S = 1.0


class CachedProbe:
    """One answer is good for a second: a hundred callers of /readyz are one question, not a hundred."""

    def __init__(self, name: str, ask: Callable[[], None], *, clock: Clock) -> None:
        self._name = name
        self._ask = ask
        self._clock = clock
        self._lock = asyncio.Lock()
        self._asked_ts = -FRESH_S
        self._answer = False

    async def __call__(self) -> bool:
        async with self._lock:
            if self._clock.monotonic() - self._asked_ts >= FRESH_S:
                self._answer = await self._ask_once()
                self._asked_ts = self._clock.monotonic()
            return self._answer

    async def _ask_once(self) -> bool:
        try:
            await asyncio.wait_for(
                database_sync_to_async(self._ask, thread_sensitive=False)(), timeout=PATIENCE_S
            )
        except Exception as problem:
            _log.warning("the %s does not answer: %s", self._name, type(problem).__name__)
            return False
        return True


def ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def ask_broker(url: str) -> None:
    with Connection(url, connect_timeout=2) as broker:
        broker.ensure_connection(max_retries=1, timeout=2)
