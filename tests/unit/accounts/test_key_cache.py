"""The cache of key facts: how old an answer may be, who shares a query, and what a flood can do."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from accounts.contracts import AccountsUnavailable, KeyFacts, Principal
from accounts.key_cache import KeyCache
from tests.clocks import FakeClock


def facts(name: str, *, revoked: bool = False) -> KeyFacts:
    principal = Principal(user_id=1, username="ann", key_id=1, key_name=name)
    return KeyFacts(principal, is_revoked=revoked, expires_at=None, is_user_active=True)


class Table:
    """Stands for the database: rows by digest, a gate that holds queries, and a count of them."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.rows: dict[str, KeyFacts] = {}
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.has_read = threading.Event()
        self.takes_s = 0.0
        self.error: Exception | None = None

    def load(self, digest: str) -> KeyFacts | None:
        self.asked.append(digest)
        found = self.rows.get(digest)
        self.has_read.set()
        assert self.gate.wait(10)
        self.clock.advance(self.takes_s)
        if self.error is not None:
            raise self.error
        return found


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(clock: FakeClock) -> Iterator[Table]:
    table = Table(clock)
    yield table
    table.gate.set()


@pytest.fixture
def cache(table: Table, clock: FakeClock) -> Iterator[KeyCache]:
    cache = KeyCache(load=table.load, monotonic=clock.monotonic, max_known=8, max_unknown=4)
    yield cache
    cache.check_integrity()


async def has_read(table: Table) -> None:
    assert await asyncio.to_thread(table.has_read.wait, 10)


class TestAge:
    async def test_facts_are_asked_once_in_four_seconds(self, cache, table, clock) -> None:
        table.rows["a"] = facts("a")
        for _ in range(8):
            assert await cache.facts_of("a") == facts("a")
            clock.advance(0.49)
        assert table.asked == ["a"]
        clock.advance(0.1)
        await cache.facts_of("a")
        assert table.asked == ["a", "a"]

    async def test_a_revocation_elsewhere_is_seen_within_five_seconds(self, cache, table, clock) -> None:
        table.rows["a"] = facts("a")
        await cache.facts_of("a")
        table.rows["a"] = facts("a", revoked=True)
        clock.advance(3.9)
        assert not (await cache.facts_of("a")).is_revoked
        clock.advance(0.2)
        assert (await cache.facts_of("a")).is_revoked

    async def test_an_unknown_key_is_remembered_for_one_second(self, cache, table, clock) -> None:
        assert await cache.facts_of("a") is None
        table.rows["a"] = facts("a")
        clock.advance(0.9)
        assert await cache.facts_of("a") is None
        clock.advance(0.2)
        assert await cache.facts_of("a") == facts("a")
        assert table.asked == ["a", "a"]

    async def test_a_slow_answer_ages_from_before_its_query(self, cache, table, clock) -> None:
        table.rows["a"] = facts("a")
        table.takes_s = 3.0
        await cache.facts_of("a")
        clock.advance(0.9)
        await cache.facts_of("a")
        assert table.asked == ["a"]
        clock.advance(0.2)
        await cache.facts_of("a")
        assert table.asked == ["a", "a"]

    async def test_an_answer_that_is_too_old_when_it_comes_is_asked_again(self, cache, table, clock) -> None:
        table.rows["a"] = facts("a")
        table.gate.clear()
        asking = asyncio.create_task(cache.facts_of("a"))
        await has_read(table)
        table.rows["a"] = facts("a", revoked=True)
        clock.advance(4.5)
        table.gate.set()
        assert (await asking).is_revoked
        assert table.asked == ["a", "a"]


class TestSharing:
    async def test_concurrent_misses_of_one_key_share_one_query(self, cache, table) -> None:
        table.rows["a"] = facts("a")
        table.gate.clear()
        asking = [asyncio.create_task(cache.facts_of("a")) for _ in range(50)]
        await has_read(table)
        assert cache.statistics().num_queries_under_way == 1
        table.gate.set()
        assert await asyncio.gather(*asking) == [facts("a")] * 50
        assert table.asked == ["a"]
        assert cache.statistics().num_queries_under_way == 0

    async def test_a_caller_that_leaves_takes_nothing_from_the_others(self, cache, table) -> None:
        table.rows["a"] = facts("a")
        table.gate.clear()
        leaver, stayer = (asyncio.create_task(cache.facts_of("a")) for _ in range(2))
        await has_read(table)
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        table.gate.set()
        assert await stayer == facts("a")
        assert table.asked == ["a"]

    async def test_when_all_callers_leave_the_answer_is_kept_for_the_next(self, cache, table) -> None:
        table.rows["a"] = facts("a")
        table.gate.clear()
        leaver = asyncio.create_task(cache.facts_of("a"))
        await has_read(table)
        leaver.cancel()
        await asyncio.wait([leaver])
        table.gate.set()
        assert await cache.facts_of("a") == facts("a")
        assert table.asked == ["a"]

    async def test_different_keys_are_asked_side_by_side_on_a_bounded_number_of_threads(self, clock) -> None:
        arrived = threading.Barrier(3)  # two queries at once, and the test

        def load(digest: str) -> KeyFacts | None:
            arrived.wait(10)
            return None

        cache = KeyCache(load=load, monotonic=clock.monotonic, max_threads=2)
        asking = [asyncio.create_task(cache.facts_of(digest)) for digest in "abcd"]
        for _ in range(2):
            await asyncio.to_thread(arrived.wait, 10)
        assert await asyncio.gather(*asking) == [None] * 4


class TestForget:
    async def test_a_changed_key_is_asked_for_again(self, cache, table) -> None:
        table.rows["a"] = facts("a")
        await cache.facts_of("a")
        table.rows["a"] = facts("a", revoked=True)
        cache.forget("a")
        assert (await cache.facts_of("a")).is_revoked

    async def test_forget_all_leaves_nothing(self, cache, table) -> None:
        table.rows["a"] = facts("a")
        await cache.facts_of("a")
        await cache.facts_of("b")
        cache.forget_all()
        statistics = cache.statistics()
        assert (statistics.num_known, statistics.num_unknown) == (0, 0)

    @pytest.mark.parametrize("forget_all", [False, True])
    async def test_a_query_that_read_before_the_change_is_not_kept(self, cache, table, forget_all) -> None:
        table.rows["a"] = facts("a")
        table.gate.clear()
        early = asyncio.create_task(cache.facts_of("a"))
        await has_read(table)
        table.rows["a"] = facts("a", revoked=True)
        if forget_all:
            cache.forget_all()
        else:
            cache.forget("a")
        late = asyncio.create_task(cache.facts_of("a"))
        await asyncio.sleep(0)
        table.gate.set()
        assert not (await early).is_revoked
        assert (await late).is_revoked
        assert (await cache.facts_of("a")).is_revoked
        assert table.asked == ["a", "a"]


class TestBounds:
    async def test_a_flood_of_unknown_keys_is_bounded_and_evicts_no_known_one(self, cache, table) -> None:
        table.rows["a"] = facts("a")
        await cache.facts_of("a")
        for number in range(100):
            assert await cache.facts_of(f"invented-{number}") is None
        assert cache.statistics().num_unknown == 4
        table.asked.clear()
        await cache.facts_of("a")
        assert table.asked == []

    async def test_known_keys_are_bounded(self, cache, table) -> None:
        for number in range(20):
            table.rows[str(number)] = facts(str(number))
            await cache.facts_of(str(number))
        assert cache.statistics().num_known == 8


class TestFailure:
    async def test_a_failure_reaches_all_who_wait_and_is_not_remembered(self, cache, table) -> None:
        table.error = AccountsUnavailable("away")
        table.gate.clear()
        asking = [asyncio.create_task(cache.facts_of("a")) for _ in range(3)]
        await has_read(table)
        table.gate.set()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(answer) for answer in answers] == [AccountsUnavailable] * 3
        table.error = None
        table.rows["a"] = facts("a")
        assert await cache.facts_of("a") == facts("a")

    async def test_known_keys_go_on_while_the_database_is_away(self, cache, table, clock) -> None:
        table.rows["a"] = facts("a")
        await cache.facts_of("a")
        table.error = AccountsUnavailable("away")
        clock.advance(3.9)
        assert await cache.facts_of("a") == facts("a")
        clock.advance(0.2)
        with pytest.raises(AccountsUnavailable):
            await cache.facts_of("a")

    async def test_a_database_that_hangs_is_away(self, table, clock) -> None:
        cache = KeyCache(load=table.load, monotonic=clock.monotonic, timeout_s=0.05)
        table.gate.clear()
        with pytest.raises(AccountsUnavailable, match="in time"):
            await cache.facts_of("a")
        table.gate.set()
        assert await cache.facts_of("a") is None

    async def test_a_failure_that_comes_after_everybody_left_is_no_unfetched_exception(
        self, table, clock, caplog
    ) -> None:
        cache = KeyCache(load=table.load, monotonic=clock.monotonic, timeout_s=0.05)
        table.error = AccountsUnavailable("away")
        table.gate.clear()
        with pytest.raises(AccountsUnavailable, match="in time"):
            await cache.facts_of("a")
        table.gate.set()
        async with asyncio.timeout(5):
            while cache.statistics().num_queries_under_way:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        gc.collect()
        assert caplog.records == []

    async def test_a_fault_of_ours_is_not_taken_for_an_outage(self, cache, table) -> None:
        table.error = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            await cache.facts_of("a")
        assert cache.statistics().num_queries_under_way == 0


async def test_it_tells_what_it_holds(cache, table) -> None:
    table.rows["a"] = facts("a")
    for digest in ("a", "a", "b"):
        await cache.facts_of(digest)
    statistics = cache.statistics()
    assert (statistics.num_hits, statistics.num_misses, statistics.num_queries) == (1, 2, 2)
    assert repr(cache) == ("<KeyCache known 1/8, unknown 1/4, 0 queries under way, 1 hits, 2 misses>")


class TestStaleFacts:
    @pytest.fixture
    def patient(self, table: Table, clock: FakeClock) -> Iterator[KeyCache]:
        cache = KeyCache(load=table.load, monotonic=clock.monotonic, stale_s=60.0)
        yield cache
        cache.check_integrity()

    async def test_keys_that_were_read_lately_go_on_while_the_database_is_away(
        self, patient, table, clock
    ) -> None:
        table.rows["a"] = facts("a")
        await patient.facts_of("a")
        table.error = AccountsUnavailable("away")
        for _ in range(5):
            clock.advance(11)
            assert await patient.facts_of("a") == facts("a")
        with pytest.raises(AccountsUnavailable):
            await patient.facts_of("b")

        clock.advance(6)
        with pytest.raises(AccountsUnavailable):
            await patient.facts_of("a")

    async def test_the_database_is_asked_once_a_second_and_believed_when_it_is_back(
        self, patient, table, clock
    ) -> None:
        table.rows["a"] = facts("a")
        await patient.facts_of("a")
        table.error = AccountsUnavailable("away")
        clock.advance(5)
        for _ in range(20):
            await patient.facts_of("a")
        assert table.asked == ["a", "a"]

        table.error, table.rows["a"] = None, facts("a", revoked=True)
        clock.advance(1.1)
        assert (await patient.facts_of("a")).is_revoked

    async def test_what_was_changed_here_or_has_gone_is_not_gone_on_with(self, patient, table, clock) -> None:
        table.rows["a"] = table.rows["b"] = facts("x")
        for digest in "ab":
            await patient.facts_of(digest)
        del table.rows["b"]
        clock.advance(5)
        assert await patient.facts_of("b") is None
        patient.forget("a")
        table.error = AccountsUnavailable("away")
        clock.advance(5)
        for digest in "ab":
            with pytest.raises(AccountsUnavailable):
                await patient.facts_of(digest)

    async def test_without_the_setting_nobody_goes_on(self, cache, table, clock) -> None:
        table.rows["a"] = facts("a")
        await cache.facts_of("a")
        table.error = AccountsUnavailable("away")
        clock.advance(5)
        with pytest.raises(AccountsUnavailable):
            await cache.facts_of("a")
