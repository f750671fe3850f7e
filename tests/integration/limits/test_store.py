"""Several processes, one set of counters, a real Postgres between them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from uuid import uuid4

import pytest
from channels.db import database_sync_to_async
from django.core.management import call_command
from django.db import connection

from accounts.contracts import NO_LIMITS, KeyLimits, Limits, Principal
from accounts.limits.contracts import LimitExceeded, LimitKind, LimitScope, LimitsUnavailable
from accounts.limits.store import PATIENCE_S, PostgresLimitStore
from accounts.models import LimitCounter, LimitProcess, LimitReservation
from tests.integration.limits.conftest import add_record, add_records, record_columns

pytestmark = pytest.mark.django_db(transaction=True)


def caller(
    *, of_key: Limits = NO_LIMITS, of_user: Limits = NO_LIMITS, of_team: Limits = NO_LIMITS, key_id: int = 1
) -> Principal:
    return Principal(
        user_id=1,
        username="ann",
        key_id=key_id,
        key_name="laptop",
        team_id=9 if of_team.has_counts else None,
        limits=KeyLimits(of_key, of_user, of_team),
    )


def _database_url() -> str:
    """The test run's own database, for a process that knows nothing of tests."""
    parts = connection.get_connection_params()
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={quote(str(parts['host']), safe='')}"


async def refused(desk, principal: Principal, *, num_tokens: int = 1) -> LimitKind:
    with pytest.raises(LimitExceeded) as caught:
        await desk.reserve(principal, num_tokens=num_tokens)
    return caught.value.refusal.kind


async def settled(*desks) -> None:
    """Until everything that was given back is in the database."""
    async with asyncio.timeout(5):
        while any(desk.statistics().num_unsaid for desk in desks):
            await asyncio.sleep(0.01)


async def counter(scope: LimitScope, owner_id: int) -> LimitCounter:
    return await LimitCounter.objects.aget(scope=scope.value, owner_id=owner_id)


class TestSharing:
    async def test_two_processes_hold_one_limit_together(self, make_desk) -> None:
        one, two = make_desk(), make_desk()
        ann = caller(of_key=Limits(max_requests_per_minute=7))
        results = await asyncio.gather(
            *(desk.reserve(ann, num_tokens=1) for _ in range(10) for desk in (one, two)),
            return_exceptions=True,
        )
        taken = [one for one in results if not isinstance(one, BaseException)]
        assert len(taken) == 7
        assert all(isinstance(e, LimitExceeded) for e in results if isinstance(e, BaseException))
        assert await LimitReservation.objects.acount() == 7
        for reservation in taken:
            reservation.settle(1)
            reservation.refund()
        await settled(one, two)
        assert await LimitReservation.objects.acount() == 0
        found = await counter(LimitScope.KEY, 1)
        assert (found.num_open, found.num_reserved_tokens, found.window[1::3]) == (0, 0, [7])

    async def test_of_twenty_at_once_none_is_over_200_tokens_a_minute(self, make_desk) -> None:
        one, two = make_desk(), make_desk()
        ann = caller(of_key=Limits(max_tokens_per_minute=200))
        results = await asyncio.gather(
            *(desk.reserve(ann, num_tokens=95) for _ in range(10) for desk in (one, two)),
            return_exceptions=True,
        )
        assert sum(not isinstance(one, BaseException) for one in results) == 2

    async def test_a_team_s_limit_holds_over_its_users_keys_and_takes_nothing_where_it_refuses(
        self, make_desk
    ) -> None:
        desk = make_desk()
        team = Limits(max_parallel_requests=2)
        first = caller(of_team=team, of_key=Limits(max_requests_per_minute=100))
        second = caller(of_team=team, of_key=Limits(max_requests_per_minute=100), key_id=2)
        held = [await desk.reserve(one, num_tokens=1) for one in (first, second)]
        assert await refused(desk, first) is LimitKind.PARALLEL_REQUESTS
        assert (await counter(LimitScope.KEY, 1)).window[1::3] == [1]
        held[0].refund()
        again = await desk.reserve(second, num_tokens=1)
        assert again.allowance.requests.remaining == 98

    async def test_what_was_estimated_gives_way_to_what_was_used(self, make_desk) -> None:
        desk = make_desk()
        ann = caller(of_user=Limits(max_tokens_per_minute=1000))
        reservation = await desk.reserve(ann, num_tokens=500)
        assert reservation.allowance.tokens.remaining == 500
        reservation.settle(20)
        await settled(desk)
        assert (await desk.standing(ann)).allowance.tokens.remaining == 980
        more = await desk.reserve(ann, num_tokens=10)
        more.settle(300)
        await settled(desk)
        assert (await desk.standing(ann)).allowance.tokens.remaining == 680
        (await desk.reserve(ann, num_tokens=100)).refund()
        await settled(desk)
        standing = await desk.standing(ann)
        assert standing.allowance.tokens.remaining == 680


class TestProcesses:
    async def test_real_processes_hold_one_limit_and_what_a_killed_one_held_is_free_again(
        self, make_store
    ) -> None:
        environment = {**os.environ, "DATABASE_URL": _database_url()}
        children = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.integration.limits.limit_process", "40", "50"),
                env=environment,
                stdout=asyncio.subprocess.PIPE,
            )
            for _ in range(2)
        ]
        try:
            async with asyncio.timeout(50):
                taken = [int(await child.stdout.readline()) for child in children]
            assert sum(taken) == 50 and min(taken) >= 10
            assert (await counter(LimitScope.KEY, 1)).num_open == 50
            children[0].kill()
            await children[0].wait()
            store = make_store(dead_after_s=4.5)  # a living one beats every two seconds
            async with asyncio.timeout(20):
                while not await store.beat(()):
                    await asyncio.sleep(0.2)
            found = await counter(LimitScope.KEY, 1)
            assert (found.num_open, sum(found.window[1::3])) == (taken[1], taken[1])
        finally:
            for child in children:
                if child.returncode is None:
                    child.kill()
                    await child.wait()

    async def test_what_a_dead_process_held_is_refunded_and_what_a_living_one_holds_is_not(
        self, make_store, make_desk
    ) -> None:
        ann = caller(of_key=Limits(max_parallel_requests=2, max_tokens_per_minute=1000))
        living, dead = make_desk(), make_desk()
        await living._store.beat(living._held)
        await dead._store.beat(dead._held)
        await living.reserve(ann, num_tokens=100)
        await dead.reserve(ann, num_tokens=100)
        assert await refused(living, ann) is LimitKind.PARALLEL_REQUESTS
        assert await living._store.beat(living._held) == 0
        dead_id = dead._store._process_id
        await LimitProcess.objects.filter(pk=dead_id).aupdate(
            seen_at=datetime.now(UTC) - timedelta(seconds=11)
        )
        assert await living._store.beat(living._held) == 1
        assert not await LimitProcess.objects.filter(pk=dead_id).aexists()
        assert (await counter(LimitScope.KEY, 1)).num_open == 1
        reservation = await living.reserve(ann, num_tokens=100)
        assert reservation.allowance.tokens.remaining == 800

    async def test_whoever_was_taken_for_dead_gives_back_nothing_twice(self, make_desk) -> None:
        ann = caller(of_key=Limits(max_parallel_requests=5, max_tokens_per_minute=1000))
        living, slow = make_desk(), make_desk()
        reservation = await slow.reserve(ann, num_tokens=100)  # has never beaten
        other = await living.reserve(ann, num_tokens=100)
        await living._store.beat(living._held)
        assert await LimitReservation.objects.acount() == 1
        reservation.settle(50)
        await settled(slow)
        found = await counter(LimitScope.KEY, 1)
        assert (found.num_open, found.num_reserved_tokens) == (1, 100)
        assert sum(found.window[2::3]) == 150
        other.refund()

    async def test_a_process_that_leaves_leaves_nothing_behind(self, make_desk) -> None:
        desk = make_desk()
        life = asyncio.create_task(desk.run())
        await desk.reserve(caller(of_key=Limits(max_parallel_requests=5)), num_tokens=100)
        settling = await desk.reserve(caller(of_key=Limits(max_parallel_requests=5)), num_tokens=100)
        settling.settle(7)
        life.cancel()
        with pytest.raises(asyncio.CancelledError):
            await life
        assert await LimitReservation.objects.acount() == await LimitProcess.objects.acount() == 0
        assert (await counter(LimitScope.KEY, 1)).num_open == 0


class TestOutages:
    async def test_a_lost_connection_is_an_error_once_and_nothing_stays_taken(self, make_desk) -> None:
        desk = make_desk()
        ann = caller(of_key=Limits(max_parallel_requests=1))
        held = await desk.reserve(ann, num_tokens=10)
        backend = desk._store._connection.info.backend_pid

        def kill() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [backend])

        await database_sync_to_async(kill)()
        held.refund()
        await asyncio.sleep(0.1)
        desk._kick()
        await settled(desk)
        assert await LimitReservation.objects.acount() == 0
        (await desk.reserve(ann, num_tokens=10)).refund()

    async def test_what_was_given_back_and_an_outage_has_undone_is_given_back_again(self, make_desk) -> None:
        """Counters do not wait for the disk, so a crash of Postgres can bring back what had ended."""
        desk = make_desk()
        ann = caller(of_key=Limits(max_parallel_requests=2))
        open_one, ended = [await desk.reserve(ann, num_tokens=10) for _ in range(2)]
        rows = [row async for row in LimitReservation.objects.values()]
        was = await LimitCounter.objects.values().aget()
        ended.refund()
        await settled(desk)
        (undone,) = [row for row in rows if row["id"] not in desk._held]
        await LimitReservation.objects.acreate(**undone)
        await LimitCounter.objects.filter(pk=was["id"]).aupdate(**was)
        assert await refused(desk, ann) is LimitKind.PARALLEL_REQUESTS

        assert await desk._store.beat(desk._held) == 1

        found = await counter(LimitScope.KEY, 1)
        assert (found.num_open, found.num_reserved_tokens, sum(found.window[1::3])) == (1, 10, 1)
        open_one.refund()
        await settled(desk)
        desk.check_integrity()

    async def test_a_database_that_is_away_is_said_to_be(self, tmp_path) -> None:
        store = PostgresLimitStore({"host": str(tmp_path), "dbname": "none"}, process_id=uuid4(), usage=None)
        with pytest.raises(LimitsUnavailable):
            await store.beat(())


class TestBudgets:
    async def test_a_new_counter_begins_with_what_the_records_say(self, make_desk) -> None:
        now = datetime.now(UTC)
        await database_sync_to_async(add_record)(at=now, num_tokens=70, key_id=1, team_id=9)
        await database_sync_to_async(add_record)(at=now, num_tokens=20, key_id=2, team_id=9)
        await database_sync_to_async(add_record)(at=now - timedelta(days=40), num_tokens=5000, team_id=9)
        desk = make_desk()
        assert await refused(desk, caller(of_key=Limits(max_tokens_per_day=100)), num_tokens=31) is (
            LimitKind.TOKENS_PER_DAY
        )
        assert await refused(desk, caller(of_team=Limits(max_tokens_per_month=100)), num_tokens=11) is (
            LimitKind.TOKENS_PER_MONTH
        )
        (await desk.reserve(caller(of_user=Limits(max_tokens_per_week=100)), num_tokens=10)).refund()

    async def test_records_count_once_however_often_they_come(self, make_desk) -> None:
        desk = make_desk()
        limits = Limits(max_tokens_per_day=1000, max_tokens_per_week=1000, max_tokens_per_month=1000)
        ann = caller(of_key=limits, of_user=limits)
        reservation = await desk.reserve(ann, num_tokens=100)
        now = datetime.now(UTC)
        rows = [record_columns(at=now, num_tokens=60), record_columns(at=now, num_tokens=7)]
        for _ in range(3):
            await database_sync_to_async(add_records)(rows)
        reservation.settle(60)
        await settled(desk)
        for scope in (LimitScope.KEY, LimitScope.USER):
            found = await counter(scope, 1)
            assert (found.day_tokens, found.week_tokens, found.month_tokens) == (67, 67, 67)
            assert found.num_reserved_tokens == 0

    async def test_a_record_that_comes_late_counts_in_its_own_period(self, make_desk) -> None:
        desk = make_desk()
        (await desk.reserve(caller(of_key=Limits(max_tokens_per_day=1000)), num_tokens=1)).refund()
        await settled(desk)
        await database_sync_to_async(add_record)(at=datetime.now(UTC) - timedelta(days=1), num_tokens=500)
        await database_sync_to_async(add_record)(at=datetime.now(UTC), num_tokens=3)
        assert (await counter(LimitScope.KEY, 1)).day_tokens == 3

    async def test_a_new_day_begins_with_nothing(self, make_desk) -> None:
        desk = make_desk()
        ann = caller(of_key=Limits(max_tokens_per_day=100))
        (await desk.reserve(ann, num_tokens=1)).refund()
        await settled(desk)
        yesterday = datetime.now(UTC).date() - timedelta(days=1)
        await LimitCounter.objects.aupdate(day_start=yesterday, day_tokens=100)
        (await desk.reserve(ann, num_tokens=100)).refund()

    async def test_a_record_of_a_new_day_moves_the_counter_there(self, make_desk) -> None:
        desk = make_desk()
        (await desk.reserve(caller(of_key=Limits(max_tokens_per_day=100)), num_tokens=1)).refund()
        await settled(desk)
        await LimitCounter.objects.aupdate(
            day_start=datetime.now(UTC).date() - timedelta(days=1), day_tokens=100
        )
        await database_sync_to_async(add_record)(at=datetime.now(UTC), num_tokens=3)
        assert (await counter(LimitScope.KEY, 1)).day_tokens == 3

    async def test_counted_anew_they_agree_with_the_records(self, make_desk, capsys) -> None:
        desk = make_desk()
        (await desk.reserve(caller(of_key=Limits(max_tokens_per_day=1000)), num_tokens=1)).refund()
        await settled(desk)
        await database_sync_to_async(add_record)(at=datetime.now(UTC), num_tokens=42)
        await LimitCounter.objects.aupdate(day_tokens=7, month_tokens=7, week_tokens=7)
        await database_sync_to_async(call_command)("limits_recount")
        assert "1 counters" in capsys.readouterr().out
        found = await counter(LimitScope.KEY, 1)
        assert (found.day_tokens, found.week_tokens, found.month_tokens) == (42, 42, 42)

    async def test_nothing_is_lost_between_a_new_counter_and_records_that_come_meanwhile(
        self, make_desk
    ) -> None:
        now = datetime.now(UTC)
        desks = [make_desk() for _ in range(3)]
        add = database_sync_to_async(add_record, thread_sensitive=False)

        async def ask(desk, number: int) -> None:
            for _ in range(10):
                ann = caller(of_key=Limits(max_tokens_per_day=10**9), key_id=number)
                (await desk.reserve(ann, num_tokens=1)).settle(1)

        await asyncio.gather(
            *(add(at=now, num_tokens=10, key_id=number) for number in range(1, 4) for _ in range(10)),
            *(ask(desk, number) for number, desk in enumerate(desks, 1)),
        )
        await settled(*desks)
        for number in range(1, 4):
            assert (await counter(LimitScope.KEY, number)).day_tokens == 100


async def test_a_database_that_hangs_is_given_up(make_store) -> None:
    store = make_store()
    await store.beat(())
    cursor = await (await store._connected()).execute("SELECT pg_backend_pid()")
    (backend,) = await cursor.fetchone()
    os.kill(backend, signal.SIGSTOP)
    try:
        async with asyncio.timeout(3 * PATIENCE_S):
            with pytest.raises(LimitsUnavailable):
                await store.beat(())
    finally:
        os.kill(backend, signal.SIGCONT)
    await store.beat(())
