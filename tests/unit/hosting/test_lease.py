from __future__ import annotations

import asyncio
from typing import Any

from inference.hosting.lease import LeaseBook
from tests.clocks import FakeClock

MODEL: Any = object()


async def test_a_lease_counts_until_it_is_released_and_only_once():
    clock = FakeClock()
    book = LeaseBook(clock)
    first, second = book.acquire(MODEL), book.acquire(MODEL)
    first.release()
    first.release()
    book.check_integrity()
    assert book.num_held == 1
    with second:
        clock.advance(5)
        assert book.last_used_ts == 1005.0
    clock.advance(5)
    assert (book.num_held, book.last_used_ts) == (0, 1005.0)
    book.check_integrity()


async def test_who_waits_for_the_last_lease_has_limited_patience():
    book = LeaseBook(FakeClock())
    assert await book.until_free(0.0)
    lease = book.acquire(MODEL)
    assert not await book.until_free(0.01)
    waiting = asyncio.ensure_future(book.until_free(10.0))
    await asyncio.sleep(0)
    lease.release()
    assert await waiting


async def test_nobody_waits_for_leases_of_a_service_that_ends():
    book = LeaseBook(FakeClock())
    lease = book.acquire(MODEL)
    waiting = asyncio.ensure_future(book.until_free(3600.0))
    await asyncio.sleep(0)
    book.give_up()
    assert not await waiting
    assert not await book.until_free(3600.0)
    book.check_integrity()
    lease.release()
    assert await book.until_free(0.0)
    book.check_integrity()
