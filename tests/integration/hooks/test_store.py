"""Policies in every process: there within seconds of a change, and kept while the database is away."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.snapshots import UNREAD, PolicySnapshot
from hooks.services.announcement import CHANNEL
from hooks.services.policies import policy_create, policy_delete, policy_set_mode
from hooks.services.webhooks import webhook_create
from hooks.store import PolicyStore
from inference.ledger.database_calls import database_parameters
from skippy_site.hook_rows import _snapshot_read, make_policy_store
from tests.integration.hooks.conftest import policy_for, webhook_for, write_past

pytestmark = pytest.mark.django_db(transaction=True)

NEVER_S = 3600.0


async def on_a_thread(call: Callable[[], Any]) -> Any:
    """Which gives back the connection that Django made for it."""

    def work() -> Any:
        try:
            return call()
        finally:
            connections.close_all()

    return await asyncio.to_thread(work)


async def until(is_so: Callable[[], bool], *, within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():
            await asyncio.sleep(0.01)


def names(store: PolicyStore) -> list[str]:
    return [policy.name for policy in store.snapshot.policies]


Running = Callable[[PolicyStore], Awaitable[PolicyStore]]


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    tasks = []

    async def started(store: PolicyStore) -> PolicyStore:
        await store.start()
        tasks.append(asyncio.create_task(store.run()))
        return store

    yield started
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def store_of(read: Any = _snapshot_read, *, read_every_s: float = NEVER_S, **parameters: Any) -> PolicyStore:
    return PolicyStore(
        read=read,
        parameters={**database_parameters(), **parameters},
        channel=CHANNEL,
        read_every_s=read_every_s,
    )


async def test_every_process_hears_of_every_change(running) -> None:
    stores = [await running(store_of()) for _ in range(3)]
    await until(lambda: all(store.is_listening for store in stores))
    assert all(store.snapshot == PolicySnapshot() for store in stores)

    began_ts = time.monotonic()
    policy = policy_for("new", mode=PolicyMode.ENFORCE)
    row = await on_a_thread(partial(policy_create, policy=policy))
    await until(lambda: all(names(store) == ["new"] for store in stores))
    webhook = await on_a_thread(partial(webhook_create, settings=webhook_for()))
    await until(lambda: all(webhook.pk in store.snapshot.webhooks for store in stores))
    await on_a_thread(partial(policy_set_mode, policy_id=row.pk, mode=PolicyMode.OFF))
    await until(lambda: all(names(store) == [] for store in stores))
    await on_a_thread(partial(policy_set_mode, policy_id=row.pk, mode=PolicyMode.OBSERVE))
    await until(lambda: all(names(store) == ["new"] for store in stores))
    await on_a_thread(partial(policy_delete, policy_id=row.pk))
    await until(lambda: all(names(store) == [] for store in stores))

    assert time.monotonic() - began_ts < 5 * 5


async def test_what_is_not_heard_of_is_read(running, tmp_path) -> None:
    store = await running(store_of(read_every_s=0.05, host=str(tmp_path)))
    await on_a_thread(partial(policy_create, policy=policy_for("new", mode=PolicyMode.ENFORCE)))

    await until(lambda: names(store) == ["new"])
    await on_a_thread(partial(write_past, "hooks_hookpolicy", "name = 'by hand'"))
    await until(lambda: names(store) == ["by hand"])
    assert not store.is_listening


async def test_what_changed_before_anybody_listened_is_read_then(running) -> None:
    store = await running(store_of())
    await on_a_thread(partial(policy_create, policy=policy_for("new", mode=PolicyMode.ENFORCE)))

    await until(lambda: names(store) == ["new"])


async def test_a_lost_connection_is_made_again(running) -> None:
    store = await running(store_of(application_name="policies-heard"))
    await until(lambda: store.is_listening)

    await on_a_thread(_end_listeners)
    await until(lambda: not store.is_listening)
    await until(lambda: store.is_listening)
    await on_a_thread(partial(policy_create, policy=policy_for("new", mode=PolicyMode.ENFORCE)))
    await until(lambda: names(store) == ["new"])


def _end_listeners() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'policies-heard'"
        )


class Readings:
    """A database that answers as it is told."""

    def __init__(self) -> None:
        self.answer: PolicySnapshot | Exception = PolicySnapshot()
        self.num_asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self) -> PolicySnapshot:
        self.num_asked += 1
        await self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def snapshot_of(*policies: Policy) -> PolicySnapshot:
    return PolicySnapshot(policies)


async def test_until_policies_were_read_nobody_passes(caplog) -> None:
    readings = Readings()
    readings.answer = OperationalError("away")
    store = store_of(readings)

    await store.start()

    assert store.snapshot is UNREAD
    (policy,) = store.snapshot.policies
    assert policy.fault and policy.is_required and policy.mode is PolicyMode.ENFORCE
    readings.answer = PolicySnapshot()
    await store.refresh()
    assert store.snapshot == PolicySnapshot()


async def test_the_last_snapshot_holds_while_the_database_is_away(caplog) -> None:
    readings, told = Readings(), []
    readings.answer = snapshot_of(policy_for("kept"))
    store = store_of(readings)
    store.subscribe(told.append)
    await store.start()

    for problem in (OperationalError("away"), TimeoutError(), RuntimeError("odd")):
        readings.answer = problem
        await store.refresh()
        assert store.is_away
        assert names(store) == ["kept"]
    readings.answer = snapshot_of(policy_for("other"))
    await store.refresh()

    assert not store.is_away
    assert [[policy.name for policy in one.policies] for one in told] == [["(policies)"], ["kept"], ["other"]]
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


async def test_a_reading_that_hangs_is_not_asked_for_twice() -> None:
    readings = Readings()
    readings.may_answer.clear()
    store = PolicyStore(read=readings, parameters={}, channel=CHANNEL, patience_s=0.01)

    for _ in range(3):
        await store.refresh()
    assert readings.num_asked == 1
    readings.may_answer.set()
    await store.refresh()
    assert store.snapshot == PolicySnapshot()
    await store.refresh()
    assert readings.num_asked == 2


async def test_nobody_is_told_of_what_did_not_change() -> None:
    readings, told = Readings(), []
    store = store_of(readings)
    await store.start()
    store.subscribe(told.append)
    await store.refresh()

    assert told == [PolicySnapshot()]


async def test_one_who_fails_to_listen_keeps_nobody_from_hearing(caplog) -> None:
    readings, told = Readings(), []
    store = store_of(readings)

    def fails(snapshot: PolicySnapshot) -> None:
        if snapshot is not UNREAD:
            raise RuntimeError("s3cret")

    store.subscribe(fails)
    store.subscribe(told.append)
    await store.start()

    assert told == [UNREAD, PolicySnapshot()]
    assert "RuntimeError" in caplog.text
    assert "s3cret" not in caplog.text


async def test_a_row_that_cannot_be_read_is_said_once(caplog) -> None:
    readings = Readings()
    readings.answer = snapshot_of(policy_for("odd", fault="its actions are none"))
    store = store_of(readings)
    await store.start()
    readings.answer = snapshot_of(policy_for("odd", fault="its actions are none"), policy_for("b"))
    await store.refresh()

    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "odd" in caplog.text and "refuses" in caplog.text


async def test_the_store_of_the_site_reads_the_rows(running) -> None:
    await on_a_thread(partial(policy_create, policy=policy_for("new", mode=PolicyMode.ENFORCE)))
    store = await running(make_policy_store())
    assert names(store) == ["new"]
    assert "1 policies" in repr(store)
