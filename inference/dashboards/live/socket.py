"""The live page's WebSocket: snapshots out, and a word for each that was read.

Plain ASGI: Channels' consumers would look after database connections at every word.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from inference.dashboards.live.board import LiveBoard

NOT_ALLOWED, TRY_LATER = 4403, 1013
# A page that lags behind gets no more, so that nothing gathers in buffers.
MAX_UNREAD = 3
UNREAD_LIMIT_S = 60.0


class LiveSocket:
    """`console/live/socket`. Closes with 4403 whoever may not look on, also where that changes meanwhile."""

    def __init__(self, board: LiveBoard) -> None:
        self._board = board

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        session = scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        try:
            may = is_same_origin(scope) and bool(session) and await self._board.may_watch(session)
        except Exception:  # the database is away
            await send({"type": "websocket.close", "code": TRY_LATER})
            return
        if not may:
            await send({"type": "websocket.close", "code": NOT_ALLOWED})
            return
        self._board.enter(session)
        unread = asyncio.BoundedSemaphore(MAX_UNREAD)
        sending = asyncio.create_task(self._send(session, send, unread))
        reading = asyncio.create_task(_read(receive, unread))
        try:
            await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            reading.cancel()
            await asyncio.gather(sending, reading, return_exceptions=True)
            self._board.leave(session)

    async def _send(self, session: str, send: Any, unread: asyncio.Semaphore) -> None:
        while True:
            try:
                async with asyncio.timeout(UNREAD_LIMIT_S):
                    await unread.acquire()
            except TimeoutError:
                await send({"type": "websocket.close", "code": TRY_LATER})
                return
            text = await self._board.next()
            if not self._board.watches(session):
                await send({"type": "websocket.close", "code": NOT_ALLOWED})
                return
            await send({"type": "websocket.send", "text": text})


async def _read(receive: Any, unread: asyncio.BoundedSemaphore) -> None:
    """Whatever the page says means that it has read one more."""
    while (await receive())["type"] != "websocket.disconnect":
        try:
            unread.release()
        except ValueError:
            continue  # more words than snapshots


def is_same_origin(scope: Any) -> bool:
    """The page comes from the host that the socket is asked of, port included, or from our public address.
    Allowed hosts alone would let in every other service on this machine."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin", "")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    return bool(origin) and urlsplit(origin).netloc.lower() == headers.get(b"host", "").lower()
