"""A request that somebody else ends: wherever it stands, once, and never in place of another end."""

from __future__ import annotations

import asyncio

import pytest

from inference.domain.errors import GenerationFailed, GenerationTimeout, RequestCancelled
from inference.streaming.interruption import Interruption

ERROR = RequestCancelled("an operator")


async def inside(interruption: Interruption, entered: asyncio.Event) -> None:
    async with interruption:
        entered.set()
        await asyncio.Event().wait()


async def entered(interruption: Interruption) -> asyncio.Task[None]:
    is_in = asyncio.Event()
    task = asyncio.create_task(inside(interruption, is_in))
    await is_in.wait()
    return task


async def test_what_waits_ends_with_the_error_and_the_task_is_not_cancelled() -> None:
    interruption = Interruption()
    task = await entered(interruption)
    assert interruption.interrupt(ERROR)
    assert not interruption.interrupt(GenerationTimeout("too late")), "once"
    with pytest.raises(RequestCancelled) as raised:
        await task
    assert raised.value is ERROR
    assert not task.cancelled()
    assert task.cancelling() == 0


async def test_it_may_come_before_its_time_and_not_after() -> None:
    early, late = Interruption(), Interruption()
    assert early.interrupt(ERROR)
    with pytest.raises(RequestCancelled):
        await asyncio.create_task(inside(early, asyncio.Event()))

    async with late:
        pass
    assert not late.interrupt(ERROR)
    await asyncio.sleep(0)


async def test_a_client_that_leaves_at_the_same_time_has_precedence() -> None:
    interruption = Interruption()
    task = await entered(interruption)
    interruption.interrupt(ERROR)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_within_a_time_limit_that_runs_out_at_the_same_time() -> None:
    interruption = Interruption()

    async def limited() -> None:
        async with interruption, asyncio.timeout(None) as limit:
            interruption.interrupt(ERROR)
            limit.reschedule(0)
            await asyncio.sleep(1)

    with pytest.raises(RequestCancelled):
        await limited()


async def test_what_fails_on_its_way_out_says_so() -> None:
    interruption = Interruption()

    async def failing() -> None:
        async with interruption:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise GenerationFailed("while it ended") from None

    task = asyncio.create_task(failing())
    await asyncio.sleep(0)
    interruption.interrupt(ERROR)
    with pytest.raises(GenerationFailed):
        await task
    assert task.cancelling() == 0
