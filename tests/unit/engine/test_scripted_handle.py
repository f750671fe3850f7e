"""The scripted handle does with hooks what the engine's does, so that services can be tested with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from inference.domain.backend import HoldReason
from inference.domain.errors import GenerationFailed
from inference.domain.events import Event, Failed, Finished, Injected, Signals, Started, TokenBatch
from inference.domain.injection import InjectionRefusal
from inference.domain.signals import TokenSignal
from tests.scripted_engine import ScriptedHandle
from tests.unit.engine.scripted_engine_parts import make_request

LOST = TokenSignal(5.0, 0.1)


def scripted() -> ScriptedHandle:
    return ScriptedHandle(make_request(), None).start()


async def read(events: AsyncIterator[Event], count: int) -> list[Event]:
    return [await asyncio.wait_for(anext(events), 10.0) for _ in range(count)]


async def test_what_is_said_behind_signals_waits_and_then_comes() -> None:
    handle = scripted().signal(LOST, "a").say("b").signal(LOST, "c", num_decoded=3).say("d").finish()
    events = aiter(handle)
    assert [type(one) for one in await read(events, 2)] == [Started, Signals]
    assert handle.holds == {HoldReason.HOOK}
    assert handle._events.empty()
    handle.resume(HoldReason.HOOK)
    assert [type(one) for one in await read(events, 3)] == [TokenBatch, TokenBatch, Signals]
    assert handle._events.empty()
    handle.resume(HoldReason.HOOK)
    assert [type(one) for one in await read(events, 3)] == [TokenBatch, TokenBatch, Finished]


async def test_what_is_put_in_takes_the_place_of_the_token_once() -> None:
    handle = scripted().signal(LOST, "a").say("b").finish()
    handle.inject((65, 66))
    handle.inject((67,))
    handle.resume(HoldReason.HOOK)
    handle.inject((68,))
    found = await read(aiter(handle), 7)
    puts = [(one.num_injected, one.num_discarded, one.refusal) for one in found if isinstance(one, Injected)]
    assert puts == [(2, 1, ""), (1, 0, ""), (0, 0, "not_held")]
    assert [one.token_ids for one in found if isinstance(one, TokenBatch)] == [(98,)]
    assert handle.injections == [(65, 66), (67,)]


async def test_what_is_refused_leaves_the_token() -> None:
    handle = scripted().signal(LOST, "a").finish()
    handle.inject(())
    handle.inject((257,))
    handle.injection_refusal = InjectionRefusal.CONSTRAINED
    handle.inject((65,))
    handle.resume(HoldReason.HOOK)
    found = await read(aiter(handle), 7)
    refusals = [one.refusal for one in found if isinstance(one, Injected)]
    assert refusals == ["empty", "control_token", "constrained"]
    assert [one.token_ids for one in found if isinstance(one, TokenBatch)] == [(97,)]


async def test_a_failure_comes_also_while_it_stands_still() -> None:
    handle = scripted().signal(LOST, "a", is_held=True).say("b")
    handle.fail(GenerationFailed("over"))
    assert [type(one) for one in await read(aiter(handle), 3)] == [Started, Signals, Failed]
