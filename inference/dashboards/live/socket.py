"""The live page's WebSocket: snapshots out, and a word for each that was read.

Plain ASGI: Channels' consumers would look after database connections at every word.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from inference.dashboards.live.board import LiveBoard
from inference.dashboards.live.seats import Dismissal, Dismissed, Seat, SeatsTaken
from inference.domain.errors import ServiceUnavailable

# Of those that RFC 6455 §7.4.2 leaves to applications: Daphne sends no other one but 1000.
NOT_ALLOWED, NOTHING_READ, BOARD_FAILED, TRY_LATER = 4403, 4408, 4500, 4503
_CODES = {Dismissal.NO_RIGHT: NOT_ALLOWED, Dismissal.BOARD_FAILED: BOARD_FAILED}
# A page that lags behind gets no more, so that nothing gathers in buffers.
MAX_UNREAD = 3
UNREAD_LIMIT_S = 60.0


class LiveSocket:
    """`console/live/socket`. Closes with 4403 whoever may not look on, also where that changes meanwhile;
    with 4408 who has read nothing for a minute; with 4500 where snapshots have ended; with 4503 where the
    database is away or too many look on."""

    def __init__(
        self, board: LiveBoard, *, max_unread: int = MAX_UNREAD, unread_limit_s: float = UNREAD_LIMIT_S
    ) -> None:
        self._board = board
        self._max_unread = max_unread
        self._unread_limit_s = unread_limit_s

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        session = scope["cookies"].get(settings.SESSION_COOKIE_NAME, "")
        code = await self._watch(scope, session, receive, send)
        if code is not None:
            await send({"type": "websocket.close", "code": code})

    async def _watch(self, scope: Any, session: str, receive: Any, send: Any) -> int | None:
        """Until one side has enough; the code to close with, None where the page is gone."""
        try:
            if not (session and is_same_origin(scope) and await self._board.may_watch(session)):
                return NOT_ALLOWED
            with self._board.seat(session) as seat:
                return await self._serve(seat, receive, send)
        except (ServiceUnavailable, SeatsTaken):
            return TRY_LATER

    async def _serve(self, seat: Seat, receive: Any, send: Any) -> int | None:
        unread = asyncio.BoundedSemaphore(self._max_unread)
        sending = asyncio.create_task(self._send(seat, send, unread))
        reading = asyncio.create_task(_read(receive, unread))
        try:
            await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
            return None if reading.done() else sending.result()
        finally:
            sending.cancel()
            reading.cancel()
            await asyncio.gather(sending, reading, return_exceptions=True)

    async def _send(self, seat: Seat, send: Any, unread: asyncio.Semaphore) -> int:
        while True:
            try:
                async with asyncio.timeout(self._unread_limit_s):
                    await unread.acquire()
            except TimeoutError:
                return NOTHING_READ
            try:
                text = await self._board.next(seat)
            except Dismissed as dismissed:
                return _CODES[dismissed.dismissal]
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
