"""A server process's ear for questions about what runs in it (live_questions.py).

One idle connection, on which nothing happens until somebody asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
import psycopg

from accounts.channel_listener import ChannelListener
from accounts.postgres_calls import execute
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

ANSWER_PATIENCE_S = 5.0
MESSAGE = "The request was cancelled by an operator."


class LiveListener:
    """Answers for `live()`, the requests of this process. `run()` it as a task until it is cancelled; while
    the database is away nobody can ask, and it tries again with growing pauses."""

    def __init__(self, parameters: Mapping[str, Any], live: Callable[[], Iterable[LiveRequest]]) -> None:
        """`parameters` are psycopg's (libpq's); `live` gives requests in the order of their arrival."""
        self.server = uuid4().hex
        self._live = live
        self._channel = ChannelListener(
            {**parameters, "application_name": SERVER_PREFIX + self.server},
            CHANNEL,
            what="questions about what runs",
            heard=self._heard,
            patience_s=ANSWER_PATIENCE_S,
        )
        self.total_cancelled = 0

    @property
    def is_listening(self) -> bool:
        return self._channel.is_listening

    async def run(self) -> None:
        await self._channel.run()

    async def _heard(self, connection: psycopg.AsyncConnection[Any], asked: Sequence[str]) -> None:
        for payload in asked:
            await self._answer(connection, payload)

    async def _answer(self, connection: psycopg.AsyncConnection[Any], payload: str) -> None:
        try:
            question = decode_question(payload)
        except msgspec.DecodeError:
            _log.warning("a question about what runs could not be read")
            return
        num_untold = 0
        if question.cancel is not None:
            told = self._cancelled(question.cancel)
        else:
            told, num_untold = self._statuses(question.max_requests)
        payloads = list(answer_payloads(self.server, told, num_untold=num_untold))
        async with asyncio.timeout(ANSWER_PATIENCE_S):
            await execute(
                connection,
                b"SELECT pg_notify(%s, part) FROM unnest(%s::text[]) WITH ORDINALITY AS parts (part, number) "
                b"ORDER BY number",
                (question.reply_to, payloads),
            )

    def _statuses(self, max_requests: int | None) -> tuple[list[LiveRequestStatus], int]:
        """Those that arrived first, and how many more there are: who looks on once a second asks for a
        screenful, and thousands that wait then cost no more than that."""
        live = list(self._live())
        told = live[:max_requests]
        return [LiveRequestStatus.of(one.summary_now()) for one in told], len(live) - len(told)

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
        return f"<LiveListener on {self._channel!r}, {self.total_cancelled} cancelled>"
