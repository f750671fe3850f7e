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
from dataclasses import dataclass


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
    """The lock of one session and how many requests hold it or wait for it."""

    __slots__ = ("lock", "num_users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.num_users = 0


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
    """All sessions in use in this process. For one event loop; first come, first served."""

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}
        self._num_held = 0

    async def acquire(self, key: int) -> SessionHold:
        """Wait until nobody else generates in this session. May be cancelled at any time."""
        session = self._sessions.setdefault(key, _Session())
        session.num_users += 1
        try:
            await session.lock.acquire()
        except BaseException:
            self._leave(key, session)
            raise
        self._num_held += 1
        return SessionHold(self, key)

    def _release(self, key: int) -> None:
        session = self._sessions[key]
        session.lock.release()
        self._num_held -= 1
        self._leave(key, session)

    def _leave(self, key: int, session: _Session) -> None:
        session.num_users -= 1
        if not session.num_users:
            del self._sessions[key]

    def statistics(self) -> SessionStatistics:
        num_users = sum(session.num_users for session in self._sessions.values())
        return SessionStatistics(num_sessions=len(self._sessions), num_waiting=num_users - self._num_held)

    def check_integrity(self) -> None:
        """Every entry has a user, and whoever holds one holds its lock."""
        assert all(session.num_users > 0 for session in self._sessions.values()), repr(self)
        assert self._num_held == sum(one.lock.locked() for one in self._sessions.values()), repr(self)

    def __repr__(self) -> str:
        statistics = self.statistics()
        return f"<SessionRegistry: {statistics.num_sessions} in use, {statistics.num_waiting} waiting>"
