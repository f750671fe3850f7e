"""Lets requests in by the limits of their caller, together with all other server processes.

    standing()  reserve() ──→ queue ──→ one transaction at a time ──→ answers
    settle() refund() ─────→   ↑         (whatever came meanwhile is the next one)

A key without limits never gets here but for the service's ceiling, which is counted in memory. What is
given back is kept and tried again until the database has taken it; who asks while it is away is told
so at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol, TypeVar
from uuid import UUID, uuid4

from cachetools import LRUCache

from accounts.contracts import Principal
from accounts.limits.ceiling import Ceiling
from accounts.limits.contracts import (
    Allowance,
    LimitExceeded,
    LimitScope,
    LimitsUnavailable,
    Quota,
    Refusal,
    Standing,
)
from accounts.limits.counter import Counter, Owner
from accounts.limits.transaction import Batch, GiveBack, Look, Outcome, Owners, Picture, Take

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

MAX_BATCH = 500
BEAT_EVERY_S = 2.0
# Other processes hear of what has ended this late at most.
SAY_WITHIN_S = 0.02
# A picture this old still shows what is left; whoever would be refused by it is looked up.
PICTURE_FOR_S = 1.0
MAX_PICTURES = 10_000


class LimitStore(Protocol):
    """The counters; `PostgresLimitStore` keeps them. All methods raise LimitsUnavailable."""

    async def run(self, batch: Batch) -> Outcome: ...

    async def beat(self, held: Collection[UUID]) -> int: ...

    async def leave(self) -> None: ...

    async def close(self) -> None: ...


class Clock(Protocol):
    """Monotonic seconds for intervals and Unix seconds for instants."""

    def monotonic(self) -> float: ...

    def unix_time(self) -> float: ...


@dataclass(frozen=True, slots=True)
class LimitDeskStatistics:
    """A picture of the desk. `num_unsaid` reservations have ended and the database does not know yet."""

    num_open: int
    num_waiting: int
    num_unsaid: int
    num_transactions: int
    num_refused: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """A counter as it was at `now` (the store's clock) and `seen_ts` (ours)."""

    counter: Counter
    now: float
    seen_ts: float


class Reservation:
    """Implements LimitReservation."""

    __slots__ = ("_give_back", "_is_open", "allowance")

    def __init__(self, allowance: Allowance, give_back: Callable[[int | None], None]) -> None:
        self.allowance = allowance
        self._give_back = give_back
        self._is_open = True

    def __repr__(self) -> str:
        return f"<Reservation {'open' if self._is_open else 'given back'}>"

    def settle(self, num_tokens: int) -> None:
        self._close(num_tokens)

    def refund(self) -> None:
        self._close(None)

    def _close(self, num_tokens: int | None) -> None:
        if self._is_open:
            self._is_open = False
            self._give_back(num_tokens)


class SharedLimitDesk:
    """Implements LimitDesk on counters that other processes share. Event loop only.

    `run` has to be there for as long as the server is; it says that this process lives, and gives
    back what dead ones held.
    """

    def __init__(
        self, store: LimitStore, *, ceiling: Ceiling, clock: Clock, beat_every_s: float = BEAT_EVERY_S
    ) -> None:
        self._store = store
        self._beat_every_s = beat_every_s
        self._ceiling = ceiling
        self._clock = clock
        self._given_back: deque[GiveBack] = deque()
        self._asked: deque[Look | Take] = deque()
        self._saying: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._using_store = asyncio.Lock()
        self._pictures: LRUCache[Owner, _Seen] = LRUCache(MAX_PICTURES)
        # From the moment at which one is asked for until the store has taken it back.
        self._held: set[UUID] = set()
        self._num_being_said = 0
        self._num_open = 0
        self._num_transactions = 0
        self._num_refused = 0

    def __repr__(self) -> str:
        s = self.statistics()
        return (
            f"<SharedLimitDesk {s.num_open} open, {s.num_waiting} waiting, {s.num_unsaid} unsaid, "
            f"{s.num_transactions} transactions, {s.num_refused} refused>"
        )

    # -- for the doors --------------------------------------------------------------------------------

    async def standing(self, principal: Principal) -> Standing:
        now = self._clock.unix_time()
        refusal = self._ceiling.refusal(principal.key_id, now, num_tokens=1)
        owners = owners_of(principal)
        if not owners:
            return Standing(self._allowance(principal, owners, None), refusal)
        picture = self._remembered(owners)
        if picture is None or picture.refusal is not None:
            picture = await self._ask(Look(owners, _future()))
        refusals = [one for one in (refusal, picture.refusal) if one is not None]
        return Standing(
            self._allowance(principal, owners, picture),
            max(refusals, key=lambda one: one.wait_s, default=None),
        )

    async def reserve(self, principal: Principal, *, num_tokens: int) -> Reservation:
        now, key_id = self._clock.unix_time(), principal.key_id
        owners = owners_of(principal)
        refusal = self._ceiling.refusal(key_id, now, num_tokens=num_tokens)
        if refusal is not None:
            self._num_refused += 1
            raise LimitExceeded(refusal, self._allowance(principal, owners, None))
        slot = self._ceiling.take(key_id, now, num_tokens=num_tokens)
        reservation_id = uuid4()
        is_shared = False

        def give_back(used: int | None) -> None:
            self._ceiling.give_back(
                key_id, self._clock.unix_time(), slot=slot, num_reserved=num_tokens, num_tokens=used
            )
            self._num_open -= 1
            if is_shared:
                self._say(GiveBack(reservation_id, tuple(owners), used))

        self._num_open += 1
        picture: Picture | None = None
        if owners:
            try:
                picture = await self._ask(Take(reservation_id, owners, num_tokens, _future()))
            except BaseException:
                give_back(None)
                raise
            if picture.refusal is not None:
                give_back(None)
                self._num_refused += 1
                raise LimitExceeded(picture.refusal, self._allowance(principal, owners, picture))
            is_shared = True
        return Reservation(self._allowance(principal, owners, picture), give_back)

    # -- its life -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Tell the others that this process lives, until cancelled; then leave nothing behind."""
        is_away = False
        try:
            while True:
                try:
                    async with self._using_store:
                        num_dead = await self._store.beat(self._held)
                    if num_dead:
                        logger.warning("%d reservations that nobody holds were refunded", num_dead)
                    is_away = False
                except LimitsUnavailable as error:
                    if not is_away:
                        logger.warning("limits cannot be counted: %s", error)
                    is_away = True
                self._kick()
                await asyncio.sleep(self._beat_every_s)
        finally:
            await asyncio.shield(self._leave())

    async def _leave(self) -> None:
        if self._saying is not None:
            self._saying.cancel()
        self._kick()
        if self._flushing is not None:
            await asyncio.wait([self._flushing])
        async with self._using_store:
            try:
                await self._store.leave()
            except LimitsUnavailable as error:
                logger.warning("reservations are left to the other processes: %s", error)
            await self._store.close()

    def statistics(self) -> LimitDeskStatistics:
        return LimitDeskStatistics(
            num_open=self._num_open,
            num_waiting=len(self._asked),
            num_unsaid=len(self._given_back) + self._num_being_said,
            num_transactions=self._num_transactions,
            num_refused=self._num_refused,
        )

    def check_integrity(self) -> None:
        """AssertionError if more was given back than was taken, or something is held for nobody."""
        assert self._num_open >= 0, self
        is_flushing = self._flushing is not None and not self._flushing.done()
        assert is_flushing or self._given_back or len(self._held) <= self._num_open, self

    # -- the one transaction --------------------------------------------------------------------------

    async def _ask(self, asked: Look | Take) -> Picture:
        if isinstance(asked, Take):
            self._held.add(asked.reservation_id)
        self._asked.append(asked)
        self._kick()
        try:
            return await asyncio.shield(asked.answer)
        except asyncio.CancelledError:
            # Whether it was taken is not known yet: once it is, it is given back.
            if isinstance(asked, Take):
                asked.answer.add_done_callback(lambda answer: self._disown(asked, answer))
            raise

    def _disown(self, asked: Take, answer: asyncio.Future[Picture]) -> None:
        if not answer.cancelled() and answer.exception() is None and answer.result().refusal is None:
            self._say(GiveBack(asked.reservation_id, tuple(asked.owners), None))

    def _say(self, one: GiveBack) -> None:
        """Soon: whoever asks meanwhile takes it along, and one transaction is enough for both."""
        self._given_back.append(one)
        if self._saying is None:
            self._saying = asyncio.get_running_loop().call_later(SAY_WITHIN_S, self._said)

    def _said(self) -> None:
        self._saying = None
        self._kick()

    def _kick(self) -> None:
        if (self._asked or self._given_back) and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.ensure_future(self._flush())

    async def _flush(self) -> None:
        """Until nobody asks any more, or the database is away."""
        async with self._using_store:
            while self._asked or self._given_back:
                given_back = tuple(_first(self._given_back, MAX_BATCH))
                asked = tuple(_first(self._asked, MAX_BATCH))
                self._num_being_said = len(given_back)
                try:
                    outcome = await self._store.run(Batch(given_back, asked))
                except BaseException as error:
                    self._failed(given_back, asked)
                    if isinstance(error, LimitsUnavailable):
                        return
                    raise
                finally:
                    self._num_being_said = 0
                self._num_transactions += 1
                self._held.difference_update(one.reservation_id for one in given_back)
                self._answer(asked, outcome)

    def _answer(self, asked: tuple[Look | Take, ...], outcome: Outcome) -> None:
        seen_ts = self._clock.monotonic()
        for counter in outcome.counters:
            self._pictures[counter.owner] = _Seen(counter, outcome.now, seen_ts)
        for one, picture in zip(asked, outcome.pictures, strict=True):
            if isinstance(one, Take) and picture.refusal is not None:
                self._held.discard(one.reservation_id)
            if not one.answer.done():
                one.answer.set_result(picture)

    def _failed(self, given_back: tuple[GiveBack, ...], asked: tuple[Look | Take, ...]) -> None:
        self._given_back.extendleft(reversed(given_back))
        # Whoever waits besides would wait for the same.
        for one in (*asked, *_first(self._asked, len(self._asked))):
            if isinstance(one, Take):
                # It may have been taken all the same.
                self._given_back.append(GiveBack(one.reservation_id, tuple(one.owners), None))
            if not one.answer.done():
                one.answer.set_exception(LimitsUnavailable("the database could not be asked"))
                one.answer.exception()  # read, also where its caller has gone

    # -- what is left ---------------------------------------------------------------------------------

    def _remembered(self, owners: Owners) -> Picture | None:
        """A picture of all these owners that is young enough, as it is by now."""
        now_ts, now = self._clock.monotonic(), 0.0
        counters: list[Counter] = []
        for owner in owners:
            seen = self._pictures.get(owner)
            if seen is None or now_ts - seen.seen_ts > PICTURE_FOR_S:
                return None
            counters.append(seen.counter)
            now = max(now, seen.now + now_ts - seen.seen_ts)
        refusal: Refusal | None = None
        for counter, limits in zip(counters, owners.values(), strict=True):
            counter.move_to(now)
            refusal = refusal or counter.refusal(limits, now, num_tokens=1)
        return Picture(tuple(counters), now, refusal)

    def _allowance(self, principal: Principal, owners: Owners, picture: Picture | None) -> Allowance:
        requests, tokens = self._ceiling.quotas(principal.key_id, self._clock.unix_time())
        if picture is None:
            return Allowance(requests, tokens)
        of_requests = [c.requests_quota(owners[c.owner], picture.now) for c in picture.counters]
        of_tokens = [c.tokens_quota(owners[c.owner], picture.now) for c in picture.counters]
        return Allowance(_tightest(of_requests, requests), _tightest(of_tokens, tokens))


def owners_of(principal: Principal) -> Owners:
    """Those whose limits have to be counted for this caller, from the key upwards."""
    limits = principal.limits
    if not limits.has_counts:
        return {}
    found = {}
    if limits.of_key.has_counts:
        found[Owner(LimitScope.KEY, principal.key_id)] = limits.of_key
    if limits.of_user.has_counts:
        found[Owner(LimitScope.USER, principal.user_id)] = limits.of_user
    if limits.of_team.has_counts and principal.team_id is not None:
        found[Owner(LimitScope.TEAM, principal.team_id)] = limits.of_team
    return found


def _tightest(quotas: list[Quota | None], ceiling: Quota) -> Quota:
    """The one with the least left; the ceiling where nobody has one."""
    known = [quota for quota in quotas if quota is not None]
    return min([*known, ceiling], key=lambda quota: (quota.remaining, quota.limit)) if known else ceiling


def _first(queue: deque[_T], most: int) -> list[_T]:
    return [queue.popleft() for _ in range(min(most, len(queue)))]


def _future() -> asyncio.Future[Picture]:
    return asyncio.get_running_loop().create_future()
