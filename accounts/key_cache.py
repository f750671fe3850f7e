"""What the database said of keys in the last seconds, so that a request rarely has to ask it.

A look-up in Postgres costs milliseconds and a connection, one in memory microseconds; a key makes
many requests in a second. But a revoked key must be dead in every process within 5 s, and nobody
tells the other processes. So facts are kept for 4 s at most, counted from the moment *before* the
query that read them: a slow answer is an old answer and does not get a new lease.

- The key of the cache is the digest; the plaintext is never kept.
- Digests that nobody knows are kept apart, for a shorter time and in bounded number: a flood of
  invented keys evicts no real one.
- Callers that miss the same digest together share one query. A caller that is cancelled leaves it
  to the others.
- `forget` also disowns a query that is under way, since it may have read the row before the change.
- An operator may prefer answers to exact revocations while the database is away: then facts that were read
  no longer than `stale_s` ago go on, and the database is asked again once a second at most.

The queries run on a few threads of their own: `max_threads` bounds the database connections that
look-ups can hold at once, and they neither wait for nor delay the process's other database calls.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from cachetools import TLRUCache

from accounts.contracts import AccountsUnavailable, KeyFacts

KNOWN_TTL_S = 4.0
UNKNOWN_TTL_S = 1.0
MAX_KNOWN = 8_192
MAX_UNKNOWN = 4_096
MAX_THREADS = 4
# As long as a caller waits for an answer before it is told that there is none.
TIMEOUT_S = 5.0
# How long nobody asks after a failure, where there are stale facts to go on with.
AWAY_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class KeyCacheStatistics:
    """A picture of the cache: what it holds, what it may hold, and how it did so far."""

    num_known: int
    max_known: int
    num_unknown: int
    max_unknown: int
    num_queries_under_way: int
    num_hits: int
    num_misses: int
    num_queries: int


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one query found (None: no such key), and the instant before it was asked."""

    facts: KeyFacts | None
    read_ts: float


# A failure travels as a value: asyncio complains of an exception that nobody fetched, and every
# caller may have left by the time it comes.
_Outcome = _Reading | BaseException


class KeyCache:
    """Facts by digest, at most `known_ttl_s` old. Safe for any number of threads and event loops.

    `load` asks the database (one query, on a thread of the cache), gives None for a digest that
    nobody has, raises `AccountsUnavailable` when it cannot say, and returns its connection.
    """

    def __init__(
        self,
        *,
        load: Callable[[str], KeyFacts | None],
        monotonic: Callable[[], float] = time.monotonic,
        known_ttl_s: float = KNOWN_TTL_S,
        unknown_ttl_s: float = UNKNOWN_TTL_S,
        max_known: int = MAX_KNOWN,
        max_unknown: int = MAX_UNKNOWN,
        max_threads: int = MAX_THREADS,
        timeout_s: float = TIMEOUT_S,
        stale_s: float = 0.0,
    ) -> None:
        self._load = load
        self._monotonic = monotonic
        self._known_ttl_s = known_ttl_s
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._known: TLRUCache[str, _Reading] = TLRUCache(
            max_known, ttu=lambda _digest, reading, _now: reading.read_ts + known_ttl_s, timer=monotonic
        )
        self._unknown: TLRUCache[str, _Reading] = TLRUCache(
            max_unknown, ttu=lambda _digest, reading, _now: reading.read_ts + unknown_ttl_s, timer=monotonic
        )
        self._stale: TLRUCache[str, KeyFacts] = TLRUCache(
            max_known if stale_s else 0, ttu=lambda _digest, _facts, now: now + stale_s, timer=monotonic
        )
        self._asks_again_ts = 0.0
        self._queries: dict[str, Future[_Outcome]] = {}
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="key-lookup")
        self._num_hits = 0
        self._num_misses = 0
        self._num_queries = 0

    def __repr__(self) -> str:
        s = self.statistics()
        return (
            f"<KeyCache known {s.num_known}/{s.max_known}, unknown {s.num_unknown}/{s.max_unknown}, "
            f"{s.num_queries_under_way} queries under way, {s.num_hits} hits, {s.num_misses} misses>"
        )

    async def facts_of(self, digest: str) -> KeyFacts | None:
        """The facts of the key with this digest, None if there is no such key.

        Raises `AccountsUnavailable` when `load` does, or when no fresh answer came within `timeout_s`,
        and there are no stale facts that may be used instead.
        """
        with self._lock:
            reading = self._known.get(digest) or self._unknown.get(digest)
            if reading is not None:
                self._num_hits += 1
                return reading.facts
            self._num_misses += 1
            stale = self._stale.get(digest)
            if stale is not None and self._monotonic() < self._asks_again_ts:
                return stale
        try:
            async with asyncio.timeout(self._timeout_s):
                return (await self._read(digest)).facts
        except (AccountsUnavailable, TimeoutError) as problem:
            stale = self._stale_facts(digest)
            if stale is not None:
                return stale
            if isinstance(problem, TimeoutError):
                raise AccountsUnavailable("the database did not answer in time") from None
            raise

    def _stale_facts(self, digest: str) -> KeyFacts | None:
        """What may be gone on with while the database is away."""
        with self._lock:
            self._asks_again_ts = self._monotonic() + AWAY_PAUSE_S
            return self._stale.get(digest)

    def forget(self, digest: str) -> None:
        """Ask the database again at the next look-up of this digest, because its row has changed."""
        with self._lock:
            self._known.pop(digest, None)
            self._unknown.pop(digest, None)
            self._stale.pop(digest, None)
            self._queries.pop(digest, None)

    def forget_all(self) -> None:
        """Ask again for every key, because something that many share has changed (a user, say)."""
        with self._lock:
            self._known.clear()
            self._unknown.clear()
            self._stale.clear()
            self._queries.clear()

    def statistics(self) -> KeyCacheStatistics:
        with self._lock:
            return KeyCacheStatistics(
                num_known=len(self._known),
                max_known=int(self._known.maxsize),
                num_unknown=len(self._unknown),
                max_unknown=int(self._unknown.maxsize),
                num_queries_under_way=len(self._queries),
                num_hits=self._num_hits,
                num_misses=self._num_misses,
                num_queries=self._num_queries,
            )

    def check_integrity(self) -> None:
        """AssertionError if a digest is both known and unknown, or an answered query is still listed."""
        with self._lock:
            both = set(self._known) & set(self._unknown)
            if both:
                raise AssertionError(f"{len(both)} digests are known and unknown at once")
            answered = sum(future.done() for future in self._queries.values())
            if answered:
                raise AssertionError(f"{answered} queries were answered and not taken off the list")

    async def _read(self, digest: str) -> _Reading:
        while True:
            outcome = await asyncio.shield(asyncio.wrap_future(self._join(digest)))
            if isinstance(outcome, BaseException):
                raise outcome
            # The query may have been under way for long when we joined it.
            if self._monotonic() - outcome.read_ts < self._known_ttl_s:
                return outcome

    def _join(self, digest: str) -> Future[_Outcome]:
        """The query under way for this digest; a new one where there is none."""
        with self._lock:
            future = self._queries.get(digest)
            if future is None:
                future = Future()
                self._threads.submit(self._run, digest, future)
                # The thread cannot have finished before this: it needs the lock to put its answer away.
                self._queries[digest] = future
                self._num_queries += 1
            return future

    def _run(self, digest: str, future: Future[_Outcome]) -> None:
        read_ts = self._monotonic()
        outcome: _Outcome
        try:
            outcome = _Reading(self._load(digest), read_ts)
        except BaseException as error:
            outcome = error
        self._put_away(digest, future, outcome)
        future.set_result(outcome)

    def _put_away(self, digest: str, future: Future[_Outcome], outcome: _Outcome) -> None:
        with self._lock:
            if self._queries.get(digest) is not future:
                return  # disowned by `forget`: good for those who asked before it, for nobody after
            del self._queries[digest]
            if isinstance(outcome, BaseException):
                return
            self._known.pop(digest, None)
            self._unknown.pop(digest, None)
            self._stale.pop(digest, None)
            (self._unknown if outcome.facts is None else self._known)[digest] = outcome
            if outcome.facts is not None and self._stale.maxsize:
                self._stale[digest] = outcome.facts
