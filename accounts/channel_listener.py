"""One idle connection on which a process hears what others say to a channel of Postgres.

Whoever waits for changes or questions keeps one open for as long as it lives, and opens another where it was
lost: the same loop each time, which is here once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psycopg

from accounts.postgres_calls import execute, readable

_log = logging.getLogger(__name__)

CONNECT_PATIENCE_S = 5
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 15.0

Heard = Callable[[psycopg.AsyncConnection[Any], Sequence[str]], Awaitable[None]]


class ChannelListener:
    """`run()` it as a task until it is cancelled; while the database is away it tries again, with growing
    pauses.

    `heard` gets the payloads that came together, with the connection, which it may use until it returns.
    `began` is called whenever it listens anew: what was said before that was heard by nobody. `what` names
    what is said there, for the log. `parameters` are psycopg's (libpq's); `patience_s` is for one statement.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        channel: str,
        *,
        what: str,
        heard: Heard,
        began: Callable[[], None] | None = None,
        patience_s: float,
    ) -> None:
        self._parameters = {**parameters, "connect_timeout": CONNECT_PATIENCE_S}
        self._channel = channel
        self._what = what
        self._heard = heard
        self._began = began
        self._patience_s = patience_s
        self.is_listening = False

    def __repr__(self) -> str:
        return f"<ChannelListener of {self._channel}, {'' if self.is_listening else 'not '}listening>"

    async def run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError, TimeoutError) as problem:
                if self.is_listening:
                    pause_s = FIRST_PAUSE_S
                    _log.warning("%s cannot be heard: %s", self._what, type(problem).__name__)
            finally:
                self.is_listening = False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)
        try:
            async with asyncio.timeout(self._patience_s):
                await execute(connection, f"LISTEN {self._channel}".encode())
            self.is_listening = True
            if self._began is not None:
                self._began()
            while True:
                await readable(connection)
                # What comes while `heard` uses the connection is read with its answer: then nothing is
                # readable any more.
                while said := [notify.payload async for notify in connection.notifies(timeout=0)]:
                    await self._heard(connection, said)
        finally:
            await connection.close()
