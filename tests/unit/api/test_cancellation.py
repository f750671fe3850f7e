"""A request that an operator ends, at whatever it is: its client hears of it, and nothing of it stays."""

from __future__ import annotations

import asyncio
import json

import pytest

from inference.domain.errors import RequestCancelled
from inference.domain.outcomes import Outcome
from tests.asgi import Exchange
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import Site

CHAT = "/v1/chat/completions"
ERROR = RequestCancelled("The request was cancelled by an operator.")
CODE = "request_cancelled"


def chat(**fields: object) -> bytes:
    return json.dumps(
        {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **fields}
    ).encode()


async def handle_of(site: Site) -> ScriptedHandle:
    async with asyncio.timeout(5):
        while not site.engine.handles:
            await asyncio.sleep(0)
    return site.engine.handles[0]


def cancel(site: Site) -> bool:
    (live,) = site.ledger.live.values()
    return live.interrupt(ERROR)


def check_ended(site: Site, *, has_lane: bool) -> None:
    (record,) = site.records
    assert (record.outcome, record.status, record.error_code) == (Outcome.CANCELLED, 499, CODE)
    assert (record.usage is not None) is has_lane
    assert all(handle.is_cancelled for handle in site.engine.handles)
    assert not site.ledger.live


@pytest.mark.parametrize("is_stream", [True, False])
async def test_while_it_waits_for_a_lane(site: Site, is_stream: bool) -> None:
    started = site.open(CHAT, chat(stream=is_stream))
    await handle_of(site)
    assert cancel(site)
    await started.answer()
    assert (started.status, started.json()["error"]["code"]) == (499, CODE)
    check_ended(site, has_lane=False)


async def test_while_a_whole_answer_is_generated(site: Site) -> None:
    started = site.open(CHAT, chat())
    (await handle_of(site)).start().say("Hal")
    async with asyncio.timeout(5):
        while not any(live.summary_now().usage for live in site.ledger.live.values()):
            await asyncio.sleep(0)
    assert cancel(site)
    await started.answer()
    assert (started.status, started.json()["error"]["code"]) == (499, CODE)
    check_ended(site, has_lane=True)


async def test_a_stream_that_has_begun_is_told_in_band(site: Site) -> None:
    started = site.open(CHAT, chat(stream=True))
    (await handle_of(site)).start().say("Hal")
    await started.until(lambda: b"Hal" in started.body)
    assert cancel(site)
    assert not cancel_again(site)
    await started.answer()
    assert started.status == 200
    assert started.events()[-2]["error"]["code"] == CODE
    assert started.events()[-1] == "[DONE]"
    check_ended(site, has_lane=True)
    assert site.records[0].usage is not None
    assert site.records[0].usage.completion_tokens == 3


def cancel_again(site: Site) -> bool:
    return any(live.interrupt(ERROR) for live in site.ledger.live.values())


async def test_anthropics_wire_has_its_own_error(site: Site) -> None:
    body = chat(stream=True, max_tokens=9)
    started = site.open("/v1/messages", body, **{"anthropic-version": "2023-06-01"})
    (await handle_of(site)).start().say("Hal")
    await started.until(lambda: b"Hal" in started.body)
    assert cancel(site)
    await started.answer()
    assert b"event: error" in started.frames[-1]
    assert b"cancelled by an operator" in started.frames[-1]
    check_ended(site, has_lane=True)


async def test_before_its_body_is_there(site: Site) -> None:
    started = Exchange(site.app, "POST", CHAT, headers=site.headers())
    started.send(chat()[:5], more=True)
    async with asyncio.timeout(5):
        while not site.ledger.live:
            await asyncio.sleep(0)
    assert cancel(site)
    started.send(chat()[5:])
    await started.answer()
    assert (started.status, started.json()["error"]["code"]) == (499, CODE)
    check_ended(site, has_lane=False)
    assert not site.engine.handles


async def test_a_busy_session_goes_to_the_next_when_its_request_is_cancelled() -> None:
    from dataclasses import replace

    from accounts.contracts import KeyLookup, KeyState
    from tests.unit.api.conftest import KEY, PRINCIPAL, started

    site = Site(session_header="x-session")
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, has_session_trust=True))
    await started(site)
    try:
        first = site.open(CHAT, chat(), **{"x-session": "s"})
        await handle_of(site)
        (running,) = site.ledger.live.values()
        second = site.open(CHAT, chat(), **{"x-session": "s"})
        async with asyncio.timeout(5):
            while site.runtime.sessions.statistics().num_waiting == 0:
                await asyncio.sleep(0)
        assert running.interrupt(ERROR)
        assert (await first.answer()).status == 499
        async with asyncio.timeout(5):
            while len(site.engine.handles) < 2:
                await asyncio.sleep(0)
        site.engine.handles[1].start().say("x").finish()
        assert (await second.answer()).status == 200
        assert site.runtime.sessions.statistics().num_sessions == 0
    finally:
        await site.runtime.stop()


async def test_all_answers_of_a_request_end_with_it(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("Hal")
    opened = site.open(CHAT, chat(stream=True, n=3))
    await opened.until(lambda: len(site.engine.handles) == 3 and opened.body.count(b"Hal") == 3)
    assert cancel(site)
    await opened.answer()
    assert opened.events()[-2]["error"]["code"] == CODE
    check_ended(site, has_lane=True)


async def test_what_has_ended_cannot_be_cancelled(site: Site) -> None:
    site.ledger.is_quick = False
    opened = site.open(CHAT, chat())
    handle = await handle_of(site)
    (live,) = site.ledger.live.values()
    handle.start().say("Hi").finish()
    async with asyncio.timeout(5):
        while not site.records:
            await asyncio.sleep(0)
    assert not live.interrupt(ERROR), "its record is on its way"
    site.ledger.make_safe()
    assert (await opened.answer()).status == 200
    assert [record.outcome for record in site.records] == [Outcome.COMPLETED]


async def test_fifty_at_once(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("H")
    opened = [site.open(CHAT, chat(stream=index % 2 == 0)) for index in range(50)]
    for one in opened[::2]:
        await one.until(lambda one=one: b"H" in one.body, patience_s=20)
    async with asyncio.timeout(20):
        while not all(live.summary_now().first_token_s is not None for live in site.ledger.live.values()):
            await asyncio.sleep(0)
    assert {live.interrupt(ERROR) for live in list(site.ledger.live.values())} == {True}
    for one in opened:
        await one.answer()
    assert {record.outcome for record in site.records} == {Outcome.CANCELLED}
    assert len(site.records) == 50
