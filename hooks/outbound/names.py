"""Looks up names of hosts. The system's resolver blocks, and can do so for half a minute.

Asked on the pool of threads that a loop shares among everything, a few names that nobody answers for would
stop all else that runs there. Here each look-up has a thread of its own that nobody waits for at the end of
the process, those for one name are one, and there are never more than a few.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

MAX_LOOKUPS = 16


class NameResolver:
    """The addresses of a host, as text. One event loop only."""

    def __init__(self, *, max_lookups: int = MAX_LOOKUPS) -> None:
        self._max_lookups = max_lookups
        self._running: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """In the order in which they should be tried. Raises OSError where the name has none, or where too
        many other names are being waited for."""
        key = (host, port)
        found = self._running.get(key)
        if found is None:
            if len(self._running) >= self._max_lookups:
                raise OSError("too many names are being looked up")
            found = asyncio.get_running_loop().create_future()
            look_up = threading.Thread(target=_look_up, args=(host, port, found), name="names", daemon=True)
            try:
                look_up.start()
            except RuntimeError:
                raise OSError("the machine has no thread left") from None
            self._running[key] = found
            found.add_done_callback(lambda done: self._forget(key, done))
        # Whoever gives up does so for himself.
        return await asyncio.shield(found)

    def _forget(self, key: tuple[str, int], done: asyncio.Future[list[str]]) -> None:
        del self._running[key]
        if not done.cancelled():
            # Nobody may be there any more to hear of it.
            done.exception()


def _look_up(host: str, port: int, found: asyncio.Future[list[str]]) -> None:
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        outcome: list[str] | OSError = OSError(type(problem).__name__)
    else:
        outcome = [str(entry[4][0]) for entry in entries]
    # The loop may have ended meanwhile.
    with suppress(RuntimeError):
        found.get_loop().call_soon_threadsafe(_settle, found, outcome)


def _settle(found: asyncio.Future[list[str]], outcome: list[str] | OSError) -> None:
    if found.done():
        return
    if isinstance(outcome, OSError):
        found.set_exception(outcome)
    else:
        found.set_result(outcome)
