"""One generation at a time for each trusted session.

An agent that speaks twice in one session at once would have two answers race for one conversation.
So whoever comes second waits here, before the queue: it takes no queue slot, no lane and no cells, and
callers of other sessions pass by. An entry lives as long as somebody holds it or waits for it.

Only names from the operator's header, of callers with session trust, get here; and a name means
nothing without its user, so that nobody can stand in another one's way by guessing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from dataclasses import dataclass

from inference.domain.errors import SkippyError


def stable_id(*parts: str) -> int:
    """The same 64 bits for the same parts, everywhere; never 0.

    SHA-256 over the parts, each after its length in bytes as a little-endian u64 (so that moving a
    character from one part to the next changes the result); the first eight bytes of the digest, read
    little-endian; 0 becomes 1.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return int.from_bytes(digest.digest()[:8], "little") or 1


def session_key(*, user_id: int, session_id: str) -> int:
    """What a trusted session is known by inside: the id that the client sent appears nowhere else."""
    return stable_id("trusted-session", str(user_id), session_id)


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """Sessions that somebody uses, and requests that wait because their session is in use."""

    num_sessions: int = 0
    num_waiting: int = 0


class _Session:
    """One session: held by one request, waited for by others in their order."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[None]] = deque()


class SessionHold:
    """The right to generate in a session; goes to the next in line on `release`."""

    __slots__ = ("_is_released", "_key", "_registry")

    def __init__(self, registry: SessionRegistry, key: int) -> None:
        self._registry = registry
        self._key = key
        self._is_released = False

    def release(self) -> None:
        """Effective once; later calls do nothing."""
        if not self._is_released:
            self._is_released = True
            self._registry._release(self._key)

    def __repr__(self) -> str:
        return f"<SessionHold {self._key}{' (released)' if self._is_released else ''}>"


class SessionRegistry:
    """All sessions in use in this process. For one event loop; first come, first served.

    A session is in the registry exactly while somebody holds it; on release it goes straight to the
    next in line, so that no newcomer can slip in between.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}
        self._closed: SkippyError | None = None

    async def acquire(self, key: int) -> SessionHold:
        """Wait until nobody else generates in this session. May be cancelled at any time; raises what
        `close` was given."""
        if self._closed is not None:
            raise self._closed
        session = self._sessions.get(key)
        if session is None:
            self._sessions[key] = _Session()
            return SessionHold(self, key)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session.waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release(key)  # it was its turn already
            elif turn in session.waiting:
                session.waiting.remove(turn)
            raise
        return SessionHold(self, key)

    def close(self, error: SkippyError) -> None:
        """Refuse newcomers with `error` from now on, and all who wait; who holds goes on."""
        self._closed = error
        for session in self._sessions.values():
            waiting, session.waiting = session.waiting, deque()
            for turn in waiting:
                if not turn.done():
                    turn.set_exception(error)

    def _release(self, key: int) -> None:
        session = self._sessions[key]
        while session.waiting:
            turn = session.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._sessions[key]

    def statistics(self) -> SessionStatistics:
        num_waiting = sum(len(session.waiting) for session in self._sessions.values())
        return SessionStatistics(num_sessions=len(self._sessions), num_waiting=num_waiting)

    def check_integrity(self) -> None:
        """Nobody in a line has had its turn."""
        waiting = [turn for session in self._sessions.values() for turn in session.waiting]
        assert all(not turn.done() or turn.cancelled() for turn in waiting), repr(self)

    def __repr__(self) -> str:
        statistics = self.statistics()
        return f"<SessionRegistry: {statistics.num_sessions} in use, {statistics.num_waiting} waiting>"
