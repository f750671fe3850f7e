"""The desk with counters in memory, several processes and a clock that the test moves."""

from __future__ import annotations

import asyncio

import pytest

from accounts.contracts import NO_LIMITS, KeyLimits, Limits, Principal
from accounts.limits.ceiling import Ceiling
from accounts.limits.contracts import LimitExceeded, LimitKind, LimitScope, LimitsUnavailable
from accounts.limits.counter import Owner
from accounts.limits.desk import SharedLimitDesk, owners_of
from tests.clocks import FakeClock
from tests.limit_store import MemoryLimitStore, SharedCounters

KEY = Owner(LimitScope.KEY, 1)


def caller(
    of_key: Limits = NO_LIMITS, *, of_team: Limits = NO_LIMITS, team_id: int | None = None
) -> Principal:
    return Principal(
        user_id=1,
        username="ann",
        key_id=1,
        key_name="laptop",
        team_id=team_id,
        limits=KeyLimits(of_key, NO_LIMITS, of_team),
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryLimitStore:
    return MemoryLimitStore(SharedCounters(), clock=clock)


@pytest.fixture
def desk(store: MemoryLimitStore, clock: FakeClock) -> SharedLimitDesk:
    ceiling = Ceiling(max_requests_per_minute=5, max_tokens_per_minute=1000)
    return SharedLimitDesk(store, ceiling=ceiling, clock=clock)


async def said(desk: SharedLimitDesk) -> None:
    async with asyncio.timeout(5):
        while desk.statistics().num_unsaid:
            await asyncio.sleep(0.005)


async def test_a_key_without_limits_never_touches_the_store_and_has_the_ceiling(desk, store, clock) -> None:
    taken = [await desk.reserve(caller(), num_tokens=100) for _ in range(5)]
    assert taken[-1].allowance.requests.remaining == 0
    assert taken[-1].allowance.tokens.remaining == 500
    with pytest.raises(LimitExceeded) as caught:
        await desk.reserve(caller(), num_tokens=100)
    assert caught.value.refusal.kind is LimitKind.REQUESTS_PER_MINUTE
    taken[0].settle(1)
    taken[1].refund()
    standing = await desk.standing(caller())
    assert (standing.allowance.requests.remaining, standing.allowance.tokens.remaining) == (1, 699)
    clock.advance(61)
    assert (await desk.standing(caller())).allowance.requests.remaining == 5
    assert not store.batches


async def test_a_reservation_is_given_back_once(desk, store) -> None:
    ann = caller(Limits(max_parallel_requests=2))
    first, second = [await desk.reserve(ann, num_tokens=10) for _ in range(2)]
    first.settle(5)
    first.settle(5)
    first.refund()
    await said(desk)
    assert store.shared.counters[KEY].num_open == 1
    second.refund()
    assert desk.statistics().num_open == 0
    desk.check_integrity()


async def test_whoever_ends_makes_room_for_whoever_comes_in_one_transaction(desk, store) -> None:
    ann = caller(Limits(max_parallel_requests=1))
    for _ in range(3):
        (await desk.reserve(ann, num_tokens=10)).settle(10)
    assert len(store.batches) == 3


async def test_many_at_once_share_a_transaction(store, clock) -> None:
    desk = SharedLimitDesk(
        store, ceiling=Ceiling(max_requests_per_minute=10**6, max_tokens_per_minute=10**6), clock=clock
    )
    ann = caller(Limits(max_requests_per_minute=30))
    results = await asyncio.gather(
        *(desk.reserve(ann, num_tokens=1) for _ in range(100)), return_exceptions=True
    )
    assert sum(isinstance(one, LimitExceeded) for one in results) == 70
    assert len(store.batches) == 1


async def test_a_refusal_tells_what_is_left_and_takes_nothing_of_the_ceiling(desk) -> None:
    ann = caller(Limits(max_tokens_per_minute=100))
    (await desk.reserve(ann, num_tokens=60)).settle(60)
    for _ in range(10):
        with pytest.raises(LimitExceeded) as caught:
            await desk.reserve(ann, num_tokens=60)
    assert caught.value.allowance.tokens.remaining == 40
    assert caught.value.allowance.requests.remaining == 4


async def test_who_stands_at_a_limit_is_told_so_only_after_a_look(desk, store, clock) -> None:
    ann = caller(Limits(max_tokens_per_minute=100))
    reservation = await desk.reserve(ann, num_tokens=100)
    assert (await desk.standing(ann)).refusal.kind is LimitKind.TOKENS_PER_MINUTE
    reservation.settle(10)
    assert (await desk.standing(ann)).refusal is None
    before = len(store.batches)
    assert (await desk.standing(ann)).refusal is None
    assert len(store.batches) == before, "what was seen within a second is not looked up again"
    clock.advance(1.1)
    await desk.standing(ann)
    assert len(store.batches) == before + 1


async def test_who_is_cancelled_while_it_waits_holds_nothing(desk, store) -> None:
    ann = caller(Limits(max_parallel_requests=1))
    task = asyncio.ensure_future(desk.reserve(ann, num_tokens=10))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    await said(desk)
    assert store.shared.counters[KEY].num_open == 0 and not store.shared.taken
    (await desk.reserve(ann, num_tokens=10)).refund()


async def test_an_answer_that_was_lost_leaves_nothing_taken(desk, store) -> None:
    ann = caller(Limits(max_parallel_requests=1))
    store.loses_answers = True
    with pytest.raises(LimitsUnavailable):
        await desk.reserve(ann, num_tokens=10)
    assert store.shared.taken
    store.loses_answers = False
    (await desk.reserve(ann, num_tokens=10)).refund()
    await said(desk)
    assert not store.shared.taken


async def test_while_the_store_is_away_nobody_gets_in_and_what_ends_is_kept(desk, store) -> None:
    ann = caller(Limits(max_parallel_requests=2))
    held = await desk.reserve(ann, num_tokens=10)
    store.is_away = True
    held.settle(10)
    with pytest.raises(LimitsUnavailable):
        await desk.reserve(ann, num_tokens=10)
    (await desk.reserve(caller(), num_tokens=10)).refund()
    store.is_away = False
    life = asyncio.create_task(desk.run())
    await said(desk)
    assert not store.shared.taken
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    assert store.has_left


async def test_an_outage_is_logged_once(store, clock, caplog) -> None:
    ceiling = Ceiling(max_requests_per_minute=5, max_tokens_per_minute=1000)
    desk = SharedLimitDesk(store, ceiling=ceiling, clock=clock, beat_every_s=0.002)
    store.is_away = True
    life = asyncio.create_task(desk.run())
    await asyncio.sleep(0.05)
    store.is_away = False
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    assert len([record for record in caplog.records if "cannot be counted" in record.message]) == 1


def test_only_those_who_count_are_asked() -> None:
    counts, other = Limits(max_parallel_requests=1), Limits(allowed_models=("m",))
    assert owners_of(caller(other)) == {}
    assert list(owners_of(caller(counts, of_team=counts, team_id=4))) == [KEY, Owner(LimitScope.TEAM, 4)]
