"""A server process's ear for questions about what runs in it (live_questions.py).

One idle connection, on which nothing happens until somebody asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import uuid4

import msgspec
import psycopg

from accounts.postgres_calls import execute, readable
from inference.domain.errors import RequestCancelled
from inference.domain.ledger import LiveRequest
from inference.domain.live_requests import LiveRequestStatus
from inference.ledger.live_questions import (
    CHANNEL,
    SERVER_PREFIX,
    Cancellation,
    answer_payloads,
    decode_question,
)

_log = logging.getLogger(__name__)

CONNECT_PATIENCE_S = 5
ANSWER_PATIENCE_S = 5.0
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 15.0
MESSAGE = "The request was cancelled by an operator."


class LiveListener:
    """Answers for `live()`, the requests of this process. `run()` it as a task until it is cancelled; while
    the database is away nobody can ask, and it tries again with growing pauses."""

    def __init__(self, parameters: Mapping[str, Any], live: Callable[[], Iterable[LiveRequest]]) -> None:
        """`parameters` are psycopg's (libpq's)."""
        self.server = uuid4().hex
        self._parameters = {
            **parameters,
            "connect_timeout": CONNECT_PATIENCE_S,
            "application_name": SERVER_PREFIX + self.server,
        }
        self._live = live
        self.is_listening = False
        self.total_cancelled = 0

    async def run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError, TimeoutError) as error:
                if self.is_listening:
                    pause_s = FIRST_PAUSE_S
                    _log.warning("questions about what runs cannot be heard: %s", type(error).__name__)
            finally:
                self.is_listening = False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)
        try:
            async with asyncio.timeout(ANSWER_PATIENCE_S):
                await execute(connection, f"LISTEN {CHANNEL}".encode())
            self.is_listening = True
            while True:
                await readable(connection)
                # What comes while one is answered is read with that answer: nothing is readable then.
                while asked := [notify.payload async for notify in connection.notifies(timeout=0)]:
                    for payload in asked:
                        await self._answer(connection, payload)
        finally:
            await connection.close()

    async def _answer(self, connection: psycopg.AsyncConnection[Any], payload: str) -> None:
        try:
            question = decode_question(payload)
        except msgspec.DecodeError:
            _log.warning("a question about what runs could not be read")
            return
        told = self._cancelled(question.cancel) if question.cancel is not None else self._statuses()
        payloads = list(answer_payloads(self.server, told))
        async with asyncio.timeout(ANSWER_PATIENCE_S):
            await execute(
                connection,
                b"SELECT pg_notify(%s, part) FROM unnest(%s::text[]) WITH ORDINALITY AS parts (part, number) "
                b"ORDER BY number",
                (question.reply_to, payloads),
            )

    def _statuses(self) -> list[LiveRequestStatus]:
        return [LiveRequestStatus.of(live.summary_now()) for live in self._live()]

    def _cancelled(self, wish: Cancellation) -> list[LiveRequestStatus]:
        """What was cancelled of what the wish names, as it was just before: one or nothing."""
        for live in self._live():
            if live.record_id != wish.record_id:
                continue
            summary = live.summary_now()
            if wish.user_id is not None and summary.user_id != wish.user_id:
                break
            if not live.interrupt(RequestCancelled(MESSAGE)):
                break
            self.total_cancelled += 1
            _log.info("request %s is cancelled, as %s wished", summary.request_id, wish.actor)
            return [LiveRequestStatus.of(summary)]
        return []

    def __repr__(self) -> str:
        state = "listening" if self.is_listening else "not listening"
        return f"<LiveListener {state}, {self.total_cancelled} cancelled>"
