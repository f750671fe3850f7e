"""What the doors tell the ledger, and what waits for it."""

import asyncio
import json
from dataclasses import replace

import pytest

from accounts.contracts import KeyLookup, KeyState
from inference.domain.cache_retention import CacheRetention
from inference.domain.errors import GenerationFailed
from inference.domain.outcomes import Outcome
from tests.unit.api.conftest import KEY, PRINCIPAL

CHAT = "/v1/chat/completions"


def chat(**fields) -> bytes:
    return json.dumps(
        {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **fields}
    ).encode()


def speak(*pieces: str):
    def play(handle):
        handle.start()
        for piece in pieces:
            handle.say(piece)
        handle.finish()

    return play


async def test_a_stream_says_all_but_done_before_its_record_is_safe(site):
    site.engine.play = speak("Hi")
    site.ledger.is_quick = False
    started = site.open(CHAT, chat(stream=True, stream_options={"include_usage": True}))

    await started.until(lambda: site.ledger.records and started.events()[-1].get("usage"))
    await asyncio.sleep(0.05)
    assert started.events()[-2]["choices"][0]["finish_reason"] == "stop"
    assert "[DONE]" not in started.events() and not started.is_complete
    assert site.engine.handles[0].is_cancelled, "the lane is free before"

    site.ledger.make_safe()
    await started.answer()
    assert started.events()[-1] == "[DONE]"


async def test_a_whole_answer_is_not_sent_before_its_record_is_safe(site):
    site.engine.play = speak("Hi")
    site.ledger.is_quick = False
    started = site.open(CHAT, chat())
    async with asyncio.timeout(5):
        while not site.ledger.records:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert started.status is None

    site.ledger.make_safe()
    assert (await started.answer()).status == 200


async def test_a_failure_within_a_stream_is_recorded_before_done(site):
    site.engine.play = lambda handle: handle.start().say("H").fail(GenerationFailed("x"))
    site.ledger.is_quick = False
    started = site.open(CHAT, chat(stream=True))
    async with asyncio.timeout(5):
        while not site.ledger.records:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert "[DONE]" not in started.events()

    site.ledger.make_safe()
    await started.answer()
    assert started.events()[-1] == "[DONE]" and "error" in started.events()[-2]
    assert [record.outcome for record in site.ledger.records] == [Outcome.BACKEND_ERROR]


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (chat(model="other"), 404), (chat(n=129), 400), (b"x" * 1_000_001, 413)]
)
async def test_what_is_refused_after_authentication_is_opened_and_recorded_once(site, body, status):
    answer = await site.post(CHAT, body)

    assert answer.status == status
    (opened,), (record,) = site.ledger.opened, site.ledger.records
    assert opened.record_id == record.record_id
    assert (record.outcome, record.status, record.usage) == (Outcome.REJECTED, status, None)


async def test_refused_keys_are_neither_opened_nor_recorded(site):
    answer = await site.post(CHAT, chat(), authorization="Bearer sk-skippy-no")

    assert answer.status == 401
    assert site.ledger.opened == site.ledger.records == []


async def test_nothing_is_taken_that_could_not_be_recorded_and_readiness_says_why(site):
    site.ledger.fault = "the disk is full"

    answer = await site.post(CHAT, chat())

    assert (answer.status, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert "the disk is full" in answer.json()["error"]["message"] and answer.headers["retry-after"]
    assert site.ledger.records == [] and not site.engine.handles
    ready = await site.get("/readyz")
    assert ready.status == 503 and "the disk is full" in ready.json()["reasons"][0]


async def test_a_client_that_leaves_while_its_record_is_written_had_a_complete_answer(site):
    site.engine.play = speak("Hi")
    site.ledger.is_quick = False
    started = site.open(CHAT, chat(stream=True))
    async with asyncio.timeout(5):
        while not site.ledger.records:
            await asyncio.sleep(0.01)
    started.disconnect()
    await asyncio.wait_for(started.task, 5)

    assert [record.outcome for record in site.ledger.records] == [Outcome.COMPLETED]


async def test_the_record_says_what_the_body_said_of_itself(site):
    site.engine.play = speak("Hi")

    await site.post(CHAT, chat(user="eve", metadata={"a": "b"}, max_tokens=9, prompt_cache_retention="24h"))

    (record,) = site.ledger.records
    assert (record.end_user, record.metadata, record.max_tokens) == ("eve", {"a": "b"}, 9)
    assert record.cache_retention is CacheRetention.DAY
    assert (record.username, record.key_name) == ("ada", "test")
    (noted,) = site.ledger.noted
    assert (noted.model, noted.max_tokens) == ("scripted", 9)


# -- names ------------------------------------------------------------------------------------------


def keep_text(site) -> None:
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_a_repetition_gets_the_kept_answer_byte_by_byte(site, fields):
    keep_text(site)
    site.engine.play = speak("Hel", "lo")
    named = {"idempotency-key": "one"}

    first = await site.post(CHAT, chat(**fields), **named)
    second = await site.post(CHAT, chat(**fields), **named)

    assert (first.status, second.status) == (200, 200)
    assert second.body == first.body
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    assert len(site.engine.handles) == 1
    outcomes = [(record.outcome, record.usage is None) for record in site.ledger.records]
    assert outcomes == [(Outcome.COMPLETED, False), (Outcome.COMPLETED, True)]
    (text,) = site.kept.texts
    assert text.answer == "Hello" and json.loads(text.request)["messages"][0]["content"] == "hi"


async def test_without_kept_text_a_repetition_is_told_which_request_it_repeats(site):
    site.engine.play = speak("Hi")
    named = {"idempotency-key": "one"}
    first = await site.post(CHAT, chat(), **named)

    second = await site.post(CHAT, chat(), **named)

    assert second.status == 409 and first.headers["x-request-id"] in second.json()["error"]["message"]
    assert second.headers["x-should-retry"] == "false"
    assert site.kept.texts == [] and len(site.engine.handles) == 1
    assert site.ledger.records[1].outcome is Outcome.REJECTED


async def test_while_the_first_one_runs_the_second_is_told_to_wait_and_another_body_is_wrong(site):
    named = {"idempotency-key": "one"}
    site.engine.play = lambda handle: handle.start().say("H")
    running = site.open(CHAT, chat(stream=True), **named)
    await running.until(lambda: len(running.events()) > 1)

    second = await site.post(CHAT, chat(stream=True), **named)
    other = await site.post(CHAT, chat(stream=False), **named)

    assert (second.status, other.status) == (409, 400)
    assert second.headers["retry-after"]
    running.disconnect()
    await asyncio.wait_for(running.task, 5)


@pytest.mark.parametrize("end", ["disconnect", "fail", "refuse"])
async def test_what_did_not_complete_may_be_sent_again(site, end):
    named = {"idempotency-key": "one"}
    if end == "disconnect":
        site.engine.play = lambda handle: handle.start().say("H")
        running = site.open(CHAT, chat(stream=True), **named)
        await running.until(lambda: len(running.events()) > 1)
        running.disconnect()
        await asyncio.wait_for(running.task, 5)
    elif end == "fail":
        site.engine.play = lambda handle: handle.start().fail(GenerationFailed("x"))
        assert "error" in (await site.post(CHAT, chat(stream=True), **named)).events()[-2]
    else:
        assert (await site.post(CHAT, chat(model="other"), **named)).status == 404
    assert site.kept.running == {}

    site.engine.play = speak("Hi")
    again = chat(model="other") if end == "refuse" else chat(stream=True)
    assert (await site.post(CHAT, again, **named)).status == (404 if end == "refuse" else 200)


async def test_a_database_that_is_away_refuses_named_requests_and_costs_only_what_is_kept(site):
    keep_text(site)
    site.engine.play = speak("Hi")
    site.kept.is_away = True

    assert (await site.post(CHAT, chat(), **{"idempotency-key": "one"})).status == 503
    assert (await site.post(CHAT, chat())).status == 200
    assert site.kept.texts == []


async def test_a_bad_name_is_a_400(site):
    answer = await site.post(CHAT, chat(), **{"idempotency-key": "x" * 300})

    assert answer.status == 400
    assert [record.status for record in site.ledger.records] == [400]
