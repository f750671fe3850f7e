"""Anthropic's doors around a scripted engine: answers, errors, records and limits."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from accounts.contracts import KeyLimits, KeyLookup, KeyState, Limits
from inference.domain.errors import GenerationFailed, ServerOverloaded
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from inference.domain.time_limits import TimeLimits
from tests.asgi import Exchange, exchange
from tests.scripted_engine import CHATML
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started

HI = [{"role": "user", "content": "hi"}]


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "scripted", "max_tokens": 20, "messages": HI, **fields}).encode()


def events(answer: Exchange) -> list[Any]:
    frames = answer.body.decode().removesuffix("\n\n").split("\n\n")
    found = [frame.split("\n", 1) for frame in frames if not frame.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in found]


async def test_a_whole_answer(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("Hello").finish()
    answer = await exchange(
        site.app,
        "POST",
        "/v1/messages?beta=true",
        body(system="Be brief."),
        headers={"x-api-key": KEY, "anthropic-version": "2023-06-01", "anthropic-beta": "x"},
    )

    assert answer.status == 200
    found = answer.json()
    assert found["content"] == [{"type": "text", "text": "Hello"}]
    assert (found["type"], found["role"], found["model"]) == ("message", "assistant", "scripted")
    assert (found["stop_reason"], found["stop_sequence"]) == ("end_turn", None)
    assert found["usage"]["output_tokens"] == 5
    assert answer.headers["x-ratelimit-limit-requests"]
    (record,) = site.records
    assert (record.endpoint, record.outcome, record.is_stream) == ("messages", Outcome.COMPLETED, False)
    assert record.usage is not None and record.usage.completion_tokens == 5
    prompt = bytes(one for one in site.engine.handles[0].request.prompt_token_ids if one < 256)
    assert b"system\nBe brief." in prompt and b"user\nhi" in prompt


async def test_a_stream_ends_with_message_stop_and_nothing_else(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("He").say("llo").finish(FinishReason.LENGTH)
    answer = await site.post("/v1/messages", body(stream=True, metadata={"user_id": "u1"}))

    found = events(answer)
    assert [name for name, _ in found] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(value["type"] == name for name, value in found)
    assert found[-2][1]["delta"]["stop_reason"] == "max_tokens"
    assert found[-2][1]["usage"]["output_tokens"] == 5
    assert b"[DONE]" not in answer.body
    (record,) = site.records
    assert (record.is_stream, record.end_user, record.outcome) == (True, "u1", Outcome.COMPLETED)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_the_stop_sequence_is_named(site: Site, is_stream: bool) -> None:
    site.engine.play = lambda handle: handle.start().say("one END two").finish()
    answer = await site.post("/v1/messages", body(stop_sequences=["X", "END"], stream=is_stream))

    if is_stream:
        found = dict(events(answer))["message_delta"]["delta"]
    else:
        found = answer.json()
        assert found["content"] == [{"type": "text", "text": "one "}]
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "END")


async def test_message_stop_waits_for_the_record(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("a").finish()
    site.ledger.is_quick = False
    running = site.open("/v1/messages", body(stream=True))
    await running.until(lambda: b"message_delta" in running.body)
    assert b"message_stop" not in running.body
    site.ledger.make_safe()
    await running.answer()
    assert running.body.endswith(b'{"type":"message_stop"}\n\n')


async def test_refusals_are_anthropics_and_recorded(site: Site) -> None:
    wrong = await site.post("/v1/messages", body(temperature=2))
    assert wrong.status == 400
    assert wrong.json()["error"]["type"] == "invalid_request_error"
    assert "temperature" in wrong.json()["error"]["message"]
    assert wrong.json()["request_id"] == wrong.headers["x-request-id"]
    unknown = await site.post("/v1/messages", body(model="nope"))
    assert (unknown.status, unknown.json()["error"]["type"]) == (404, "not_found_error")
    assert [record.status for record in site.records] == [400, 404]
    method = await site.get("/v1/messages")
    assert (method.status, method.json()["error"]["type"]) == (405, "invalid_request_error")
    assert method.headers["allow"] == "POST"
    key = await site.post("/v1/messages", body(), authorization="Bearer x")
    assert (key.status, key.json()["error"]["type"]) == (401, "authentication_error")
    large = await site.post("/v1/messages", b" " * 1_000_001)
    assert (large.status, large.json()["error"]["type"]) == (413, "request_too_large")


async def test_an_overloaded_service_is_529_with_retry_after(site: Site) -> None:
    site.engine.refusal = ServerOverloaded("Too much.", retry_after_s=7)
    answer = await site.post("/v1/messages", body())
    assert (answer.status, answer.headers["retry-after"]) == (529, "7")
    assert answer.json()["error"]["type"] == "overloaded_error"
    assert site.records[0].outcome is Outcome.REJECTED


async def test_limits_hold(site: Site) -> None:
    limits = KeyLimits(Limits(max_requests_per_minute=1))
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, limits=limits))
    site.engine.play = lambda handle: handle.start().say("a").finish()
    assert (await site.post("/v1/messages", body())).status == 200
    again = await site.post("/v1/messages", body())
    assert (again.status, again.json()["error"]["type"]) == (429, "rate_limit_error")
    assert again.headers["retry-after"] and again.headers["x-ratelimit-remaining-requests"] == "0"


async def test_a_failure_in_a_stream_is_an_event(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("a").fail(GenerationFailed("It broke."))
    answer = await site.post("/v1/messages", body(stream=True))
    name, value = events(answer)[-1]
    assert (name, value["error"]) == ("error", {"type": "api_error", "message": "It broke."})
    assert value["request_id"] == answer.headers["x-request-id"]
    assert b"message_stop" not in answer.body and b"[DONE]" not in answer.body
    assert site.records[0].outcome is Outcome.BACKEND_ERROR


async def test_a_client_that_leaves_frees_everything(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("a")
    running = site.open("/v1/messages", body(stream=True))
    await running.until(lambda: b"content_block_delta" in running.body)
    running.disconnect()
    await asyncio.wait_for(running.task, 5)
    assert site.engine.handles[0].is_cancelled
    assert [record.outcome for record in site.records] == [Outcome.CLIENT_DISCONNECT]


async def test_tokens_are_counted_without_a_record(site: Site) -> None:
    answer = await site.post("/v1/messages/count_tokens", body(system="Be brief."))
    assert answer.status == 200
    text = "\nsystem\nBe brief.\n\nuser\nhi\n\nassistant\n"
    assert answer.json()["input_tokens"] >= len(text)
    assert site.records == [] and site.engine.handles == []
    wrong = await site.post("/v1/messages/count_tokens", b"{}")
    assert (wrong.status, wrong.json()["type"]) == (400, "error")


TOOL = {"name": "look", "input_schema": {"type": "object"}}
CALL = 'Looking.\nTOOL_CALL {"name": "look", "arguments": {"at": "é"}}'


@pytest.mark.parametrize("is_stream", [False, True])
async def test_calls_are_blocks(site: Site, is_stream: bool) -> None:
    site.engine.play = lambda handle: handle.start().say(CALL[:30]).say(CALL[30:]).finish()
    answer = await site.post("/v1/messages", body(tools=[TOOL], stream=is_stream))

    if is_stream:
        found = [value for _, value in events(answer)]
        started = [value["content_block"] for value in found if value["type"] == "content_block_start"]
        assert [block["type"] for block in started] == ["text", "tool_use"]
        pieces = [
            value["delta"].get("partial_json", "") for value in found if "index" in value and "delta" in value
        ]
        assert json.loads("".join(pieces)) == {"at": "é"}
        reason = found[-2]["delta"]["stop_reason"]
    else:
        text, call = answer.json()["content"]
        assert text["text"].strip() == "Looking."
        assert (call["name"], call["input"]) == ("look", {"at": "é"})
        reason = answer.json()["stop_reason"]
    assert reason == "tool_use"


async def test_a_call_and_its_result_are_told_to_the_model(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("7").finish()
    turns = [
        *HI,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "é"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "seven"}]},
    ]
    answer = await site.post("/v1/messages", body(messages=turns, tools=[TOOL]))
    assert answer.status == 200
    prompt = bytes(one for one in site.engine.handles[0].request.prompt_token_ids if one < 256).decode()
    assert "look" in prompt and "seven" in prompt and "é" in prompt


async def test_an_answer_that_is_begun_is_continued(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say(" 7").finish()
    turns = [*HI, {"role": "assistant", "content": "The answer is"}]
    answer = await site.post("/v1/messages", body(messages=turns))
    assert answer.json()["content"] == [{"type": "text", "text": " 7"}]
    prompt = bytes(one for one in site.engine.handles[0].request.prompt_token_ids if one < 256)
    assert prompt.endswith(b"assistant\nThe answer is")
    counted = await site.post("/v1/messages/count_tokens", body(messages=turns))
    assert counted.json()["input_tokens"] == len(site.engine.handles[0].request.prompt_token_ids)


async def test_a_picture_for_a_model_without_a_projector_names_its_block(site: Site) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    turns = [{"role": "user", "content": [picture]}]
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        answer = await site.post(path, body(messages=turns))
        assert answer.status == 400
        assert "messages[0].content[0]" in answer.json()["error"]["message"]


async def test_an_error_after_early_headers_is_an_event() -> None:
    patient = Site(time_limits=TimeLimits(early_headers_s=0.01, keep_alive_s=0.01))
    await started(patient)
    waiting = patient.open("/v1/messages", body(stream=True))
    await waiting.until(lambda: b": keep-alive" in waiting.body and patient.engine.handles)
    patient.engine.handles[0].fail(ServerOverloaded("No lane."))
    await waiting.answer()
    ((name, value),) = events(waiting)
    assert (name, value["error"]["type"]) == ("error", "overloaded_error")
    await patient.runtime.stop()


@pytest.mark.parametrize("display", ["summarized", "omitted"])
async def test_thinking_is_a_block_of_its_own(display: str) -> None:
    thoughtful = Site()
    thoughtful.engine.description = replace(
        thoughtful.engine.description, chat_templates={"default": CHATML + "{# <think></think> #}"}
    )
    await started(thoughtful)
    thoughtful.engine.play = lambda handle: handle.start().say("<think>Hm.</think>Yes.").finish()
    thinking = {"type": "adaptive", "display": display}
    whole = (await thoughtful.post("/v1/messages", body(thinking=thinking))).json()
    text = {"type": "text", "text": "Yes."}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    assert whole["content"] == ([text] if display == "omitted" else [thought, text])
    stream = events(await thoughtful.post("/v1/messages", body(thinking=thinking, stream=True)))
    started_blocks = [v["content_block"]["type"] for n, v in stream if n == "content_block_start"]
    assert started_blocks == [block["type"] for block in whole["content"]]
    await thoughtful.runtime.stop()


async def test_a_repeated_request_gets_the_same_message(site: Site) -> None:
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
    site.engine.play = lambda handle: handle.start().say("Hello.").finish()
    first = await site.post("/v1/messages", body(stream=True), **{"idempotency-key": "once"})
    again = await site.post("/v1/messages", body(stream=True), **{"idempotency-key": "once"})
    assert again.body == first.body and again.body.endswith(b'{"type":"message_stop"}\n\n')
    assert again.headers["idempotent-replayed"] == "true"
