"""Last-used times: in memory at once, in the database now and then, never backwards."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from accounts import services
from accounts.last_used import LastUsedBuffer, api_keys_last_used_write
from accounts.models import ApiKey

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Store:
    """Stands for the database where only the buffer is looked at."""

    def __init__(self) -> None:
        self.written: list[dict[int, datetime]] = []
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def write(self, used_at: dict[int, datetime]) -> None:
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self.written.append(dict(used_at))


class Wall:
    def __init__(self) -> None:
        self.instant = NOON

    def now(self) -> datetime:
        return self.instant


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def wall() -> Wall:
    return Wall()


class TestWriting:
    pytestmark = pytest.mark.django_db

    def test_one_statement_for_all_keys_that_moves_nothing_backwards(self, ann) -> None:
        rows = [services.api_key_create(user=ann, name=str(number))[0] for number in range(3)]
        ApiKey.objects.filter(pk=rows[1].pk).update(last_used_at=NOON + timedelta(hours=1))
        ApiKey.objects.filter(pk=rows[2].pk).update(last_used_at=NOON - timedelta(hours=1))
        with CaptureQueriesContext(connection) as captured:
            api_keys_last_used_write({**{row.pk: NOON for row in rows}, 2**60: NOON})
        assert len(captured) == 1
        instants = [ApiKey.objects.get(pk=row.pk).last_used_at for row in rows]
        assert instants == [NOON, NOON + timedelta(hours=1), NOON]

    @pytest.mark.django_db(transaction=True)
    async def test_the_buffer_writes_to_the_table(self, key, wall) -> None:
        buffer = LastUsedBuffer(now=wall.now)
        buffer.note(key[0].pk)
        assert await buffer.flush()
        row = await ApiKey.objects.aget(pk=key[0].pk)
        assert row.last_used_at == NOON


class TestBuffer:
    async def test_many_uses_are_one_entry_with_the_latest_instant(self, store, wall) -> None:
        buffer = LastUsedBuffer(now=wall.now, write=store.write)
        for second in (0, 5, 3):
            wall.instant = NOON + timedelta(seconds=second)
            buffer.note(7)
        assert buffer.statistics().num_pending == 1
        assert await buffer.flush()
        assert store.written == [{7: NOON + timedelta(seconds=5)}]
        assert await buffer.flush()
        assert len(store.written) == 1  # nothing noted, nothing written

    async def test_a_failure_is_kept_and_its_log_has_no_parameters(self, store, wall, caplog) -> None:
        buffer = LastUsedBuffer(now=wall.now, write=store.write)
        store.error = OperationalError("DETAIL: parameters: $1 = 'secret'")
        buffer.note(7)
        with caplog.at_level(logging.WARNING):
            assert not await buffer.flush()
        assert "OperationalError" in caplog.text
        assert "secret" not in caplog.text
        wall.instant = NOON + timedelta(seconds=1)
        buffer.note(8)
        store.error = None
        assert await buffer.flush()
        assert store.written == [{7: NOON, 8: NOON + timedelta(seconds=1)}]
        assert buffer.statistics().num_failed_flushes == 1

    async def test_a_failed_write_does_not_hide_a_later_use(self, store, wall) -> None:
        buffer = LastUsedBuffer(now=wall.now, write=store.write)
        store.error = OperationalError()
        store.gate.clear()
        buffer.note(7)
        flushing = asyncio.create_task(buffer.flush())
        await asyncio.sleep(0.02)
        wall.instant = NOON + timedelta(seconds=9)
        buffer.note(7)
        store.gate.set()
        assert not await flushing
        store.error = None
        await buffer.flush()
        assert store.written == [{7: NOON + timedelta(seconds=9)}]

    async def test_it_is_bounded(self, store, wall) -> None:
        buffer = LastUsedBuffer(now=wall.now, write=store.write, max_keys=3)
        for key_id in (1, 2, 3, 4, 5, 1):
            buffer.note(key_id)
        buffer.check_integrity()
        assert (buffer.statistics().num_pending, buffer.statistics().num_dropped) == (3, 2)
        assert repr(buffer) == "<LastUsedBuffer 3/3 pending, 0 written, 2 dropped, 0 failed flushes>"

    async def test_it_writes_now_and_then_and_once_more_when_stopped(self, store, wall) -> None:
        buffer = LastUsedBuffer(now=wall.now, write=store.write, flush_every_s=0.05)
        running = asyncio.create_task(buffer.run())
        buffer.note(1)
        async with asyncio.timeout(5):
            while buffer.statistics().num_written == 0:
                await asyncio.sleep(0.01)
        buffer.note(2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [list(written) for written in store.written] == [[1], [2]]

    async def test_a_stop_during_a_write_loses_nothing(self, store, wall) -> None:
        buffer = LastUsedBuffer(now=wall.now, write=store.write, flush_every_s=0.01)
        store.gate.clear()
        buffer.note(1)
        running = asyncio.create_task(buffer.run())
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.sleep(0.05)
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert {1: NOON} in store.written
        assert buffer.statistics().num_pending == 0
