"""Asks all server processes what runs in them, once a second for as long as somebody looks on.

`live_desk` opens a connection for each question, which is right for one. A connection a second is a new
process of Postgres each second, and where the database hangs a thread that waits for it; so here one is
kept, on the event loop, and what does not answer in time is cut off and tried again with growing pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
from psycopg import sql

from accounts.postgres_calls import execute, readable
from inference.domain.clock import Clock
from inference.domain.live_requests import LiveRequestStatus
from inference.ledger.live_desk import SERVERS_SQL, LiveRequests
from inference.ledger.live_questions import (
    CHANNEL,
    SERVER_PREFIX,
    LiveQuestion,
    decode_answer,
    encode,
    reply_channel,
)

CONNECT_PATIENCE_S = 2.0
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 15.0
APPLICATION_NAME = "skippy-live-watch"


class LiveRequestsUnknown(Exception):
    """The database, through which all processes are asked, does not answer."""


class LiveWatch:
    """Event loop only, one question at a time. Nothing is held before the first question and after
    `close`, behind which it may be asked again."""

    def __init__(self, parameters: Mapping[str, Any], *, patience_s: float, clock: Clock) -> None:
        """`parameters` are psycopg's (libpq's). `patience_s` is for a statement, and for the answers of
        all processes together."""
        self._parameters = {
            **parameters,
            "application_name": APPLICATION_NAME,
            "connect_timeout": int(CONNECT_PATIENCE_S),
        }
        self._patience_s = patience_s
        self._clock = clock
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._pause_s = FIRST_PAUSE_S
        self._retry_ts = 0.0
        self.total_connections = 0

    async def ask(self, *, max_requests: int) -> LiveRequests:
        """The `max_requests` oldest of all processes. Takes as long as the slowest of them, at most
        `patience_s`. Raises LiveRequestsUnknown, at once where it has just been tried."""
        if self._connection is None and self._clock.monotonic() < self._retry_ts:
            raise LiveRequestsUnknown("it is tried again in a moment")
        try:
            if self._connection is None:
                async with asyncio.timeout(CONNECT_PATIENCE_S):
                    self._connection = await psycopg.AsyncConnection.connect(
                        **self._parameters, autocommit=True
                    )
                self.total_connections += 1
            found = await self._ask(self._connection, max_requests)
        except (psycopg.Error, OSError, TimeoutError) as problem:
            await self.close()
            self._retry_ts = self._clock.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
            raise LiveRequestsUnknown(type(problem).__name__) from None
        except BaseException:
            # Cancelled in the middle of a statement: what comes of it would be taken for the next one's.
            await self.close()
            raise
        self._pause_s = FIRST_PAUSE_S
        return found

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self, connection: psycopg.AsyncConnection[Any], max_requests: int) -> LiveRequests:
        reply_to = reply_channel(uuid4())
        deadline_ts = self._clock.monotonic() + self._patience_s
        async with asyncio.timeout(self._patience_s):
            # Before the question: who comes later has nothing to answer. The channel is a new one each
            # time, so that what comes too late is no answer to the next question.
            await execute(connection, f"UNLISTEN *; LISTEN {reply_to}".encode())
            rows = await execute(connection, SERVERS_SQL.encode(), (SERVER_PREFIX,))
            servers = {name.removeprefix(SERVER_PREFIX) async for (name,) in rows}
            question = encode(LiveQuestion(reply_to, max_requests=max_requests))
            notify = sql.SQL("SELECT pg_notify({}, {})").format(CHANNEL, question)
            await execute(connection, notify.as_bytes(connection))
        requests, num_untold, silent = await self._gather(connection, reply_to, servers, deadline_ts)
        return LiveRequests.by_age(
            requests, len(servers), len(silent), num_untold=num_untold, max_requests=max_requests
        )

    async def _gather(
        self, connection: psycopg.AsyncConnection[Any], reply_to: str, servers: set[str], deadline_ts: float
    ) -> tuple[list[LiveRequestStatus], int, set[str]]:
        """What was answered, how much more there is, and who did not say his last word."""
        requests: list[LiveRequestStatus] = []
        num_untold, silent = 0, set(servers)
        while silent:
            async for notify in connection.notifies(timeout=0):
                if notify.channel != reply_to:
                    continue
                try:
                    answer = decode_answer(notify.payload)
                except msgspec.DecodeError:
                    continue
                requests += answer.requests
                if answer.is_last:
                    num_untold += answer.num_untold
                    silent.discard(answer.server)
            left_s = deadline_ts - self._clock.monotonic()
            if not silent or left_s <= 0:
                break
            try:
                async with asyncio.timeout(left_s):
                    await readable(connection)
            except TimeoutError:
                break
        return requests, num_untold, silent

    def __repr__(self) -> str:
        return f"<LiveWatch {'' if self._connection else 'not '}connected>"
