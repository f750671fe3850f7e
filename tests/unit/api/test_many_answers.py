"""Several answers to one request: one status, one record, one ending, whatever becomes of each of them."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from accounts.contracts import KeyLookup, KeyState
from inference.api.choices import ChoiceStream
from inference.domain.errors import GenerationFailed, ServerOverloaded
from inference.domain.events import FinishReason, Started
from inference.domain.message_deltas import AnswerPart, ContentDelta
from inference.domain.outcomes import Outcome
from inference.domain.time_limits import TimeLimits
from inference.openai.protocol import fold_seed
from inference.openai.rendering import CompletionRendering
from inference.streaming.sessions import SessionStatistics
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started
from tests.unit.openai.test_rendering import validator

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def chat(**fields: object) -> bytes:
    return json.dumps(
        {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **fields}
    ).encode()


def completion(**fields: object) -> bytes:
    return json.dumps({"model": "scripted", "prompt": "Once", **fields}).encode()


def number_of(handle) -> int:
    """Which choice of its prompt, where the request's seed is 0."""
    return handle.request.sampling.seed


def speak_by_number(handle) -> None:
    """Choice 0 says "a0", choice 1 "b1" …, and every second one is cut off."""
    number = number_of(handle)
    reason = FinishReason.LENGTH if number % 2 else FinishReason.STOP
    handle.start().say(chr(97 + number)).say(str(number)).finish(reason)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5.0):
        while not condition():
            await asyncio.sleep(0.001)


async def submitted(site: Site, num: int) -> None:
    await until(lambda: len(site.engine.handles) == num)


async def settle(num_rounds: int = 20) -> None:
    for _ in range(num_rounds):
        await asyncio.sleep(0)


def text_of(choice) -> str:
    return choice["message"]["content"] if "message" in choice else choice["text"]


@pytest.mark.parametrize(
    ("path", "make", "schema"),
    [
        (CHAT, chat, "CreateChatCompletionResponse"),
        (COMPLETIONS, completion, "CreateCompletionResponse"),
    ],
)
async def test_whole_choices_come_in_their_order_and_the_prompt_is_counted_once(site, path, make, schema):
    site.engine.play = speak_by_number

    answer = await site.post(path, make(n=4, seed=0))

    assert answer.status == 200
    body = answer.json()
    validator(schema).validate(body)
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert [text_of(choice) for choice in body["choices"]] == ["a0", "b1", "c2", "d3"]
    assert [choice["finish_reason"] for choice in body["choices"]] == ["stop", "length"] * 2
    num_prompt_tokens = len(site.engine.handles[0].request.prompt_token_ids)
    assert body["usage"]["prompt_tokens"] == num_prompt_tokens
    assert body["usage"]["completion_tokens"] == 8
    (record,) = site.records
    assert record.outcome is Outcome.COMPLETED
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (num_prompt_tokens, 8)
    assert all(len(handle.completed) == 1 for handle in site.engine.handles)


@pytest.mark.parametrize("wants_usage", [False, True])
@pytest.mark.parametrize(("path", "make"), [(CHAT, chat), (COMPLETIONS, completion)])
async def test_streamed_choices_are_told_apart_by_their_index(site, path, make, wants_usage):
    site.engine.play = speak_by_number

    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    answer = await site.post(path, make(n=4, seed=0, stream=True, **options))

    *chunks, done = answer.events()
    assert done == "[DONE]"
    totals = [chunk for chunk in chunks if not chunk["choices"]]
    assert len(totals) == wants_usage
    if wants_usage:
        assert chunks[-1] is totals[0]
        assert totals[0]["usage"]["completion_tokens"] == 8
        chunks.pop()
        assert all(chunk["usage"] is None for chunk in chunks)
    assert len({(chunk["id"], chunk["created"]) for chunk in chunks}) == 1
    texts: defaultdict[int, str] = defaultdict(str)
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    for chunk in chunks:
        if path == CHAT:
            validator("CreateChatCompletionStreamResponse").validate(chunk)
        (choice,) = chunk["choices"]
        index = choice["index"]
        assert not reasons[index], "something came after the end of a choice"
        if path == CHAT:
            assert (choice["delta"].get("role") == "assistant") == (index not in texts)
        texts[index] += choice["delta"].get("content", "") if path == CHAT else choice["text"]
        if choice["finish_reason"] is not None:
            reasons[index].append(choice["finish_reason"])
    assert dict(texts) == {0: "a0", 1: "b1", 2: "c2", 3: "d3"}
    assert dict(reasons) == {0: ["stop"], 1: ["length"], 2: ["stop"], 3: ["length"]}
    (record,) = site.records
    assert (record.outcome, record.usage.completion_tokens) == (Outcome.COMPLETED, 8)


async def test_choices_are_interleaved_as_they_come(site):
    exchange = site.open(CHAT, chat(n=2, seed=0, stream=True))
    await submitted(site, 2)
    first, second = site.engine.handles
    first.start()
    await exchange.until(lambda: len(exchange.frames) >= 1)
    first.say("x")
    await exchange.until(lambda: b'"x"' in exchange.body)
    second.start().say("y")
    await exchange.until(lambda: b'"y"' in exchange.body)
    first.say("z").finish()
    await exchange.until(lambda: b'"z"' in exchange.body)
    second.finish()
    await exchange.answer()
    order = [
        (chunk["choices"][0]["index"], chunk["choices"][0]["delta"].get("content"))
        for chunk in exchange.events()[:-1]
    ]
    assert order == [(0, ""), (1, ""), (0, "x"), (1, "y"), (0, "z"), (0, None), (1, None)]


@pytest.mark.parametrize("is_stream", [True, False])
async def test_drafts_of_all_choices_are_counted_together(site, is_stream):
    site.engine.play = lambda handle: (
        handle.start().say("ab", num_drafted=4, num_accepted=1).say("c").say("de", num_drafted=1).finish()
    )
    options = {"stream_options": {"include_usage": True}} if is_stream else {}
    answer = await site.post(CHAT, chat(n=3, stream=is_stream, **options))
    told = answer.events()[-2] if is_stream else answer.json()
    assert (told["timings"]["draft_n"], told["timings"]["draft_n_accepted"]) == (15, 3)


async def test_each_choice_has_its_seed_and_is_a_sibling_of_the_others(site):
    site.engine.play = lambda handle: handle.start().say("x").finish()
    await site.post(COMPLETIONS, completion(n=3, seed=2**40, prompt=["Once", "Twice"]))
    requests = [handle.request for handle in site.engine.handles]
    assert [one.sampling.seed for one in requests] == [fold_seed(2**40) + index for index in (0, 1, 2)] * 2
    groups = [one.sibling_group for one in requests]
    assert groups[0]
    assert groups == [groups[0]] * 3 + [groups[3]] * 3
    assert groups[0] != groups[3]
    site.engine.handles.clear()
    await site.post(CHAT, chat(n=2))
    assert [handle.request.sampling.seed for handle in site.engine.handles] == [None, None]


async def test_one_answer_is_nobodys_sibling(site):
    site.engine.play = lambda handle: handle.start().say("x").finish()
    await site.post(CHAT, chat(n=1, seed=5))
    assert site.engine.handles[0].request.sibling_group == ""
    assert site.engine.handles[0].request.sampling.seed == 5


@pytest.mark.parametrize("is_stream", [False, True])
async def test_choices_of_several_prompts_are_numbered_by_their_prompts(site, is_stream):
    def play(handle):
        prompt = bytes(handle.request.prompt_token_ids).decode()
        handle.start().say(f"{prompt}{number_of(handle)}").finish()

    site.engine.play = play
    body = completion(prompt=["xx", "y"], n=2, seed=0, stream=is_stream)
    answer = await site.post(COMPLETIONS, body)
    if is_stream:
        choices = [chunk["choices"][0] for chunk in answer.events()[:-1]]
        texts = {choice["index"]: choice["text"] for choice in choices if choice["text"]}
    else:
        texts = {choice["index"]: choice["text"] for choice in answer.json()["choices"]}
        assert answer.json()["usage"]["prompt_tokens"] == 3
    assert texts == {0: "xx0", 1: "xx1", 2: "y0", 3: "y1"}


async def test_token_lists_are_prompts_too(site):
    site.engine.play = lambda handle: handle.start().say(str(len(handle.request.prompt_token_ids))).finish()
    answer = await site.post(COMPLETIONS, completion(prompt=[[65, 66], [67]]))
    assert [choice["text"] for choice in answer.json()["choices"]] == ["2", "1"]
    refused = await site.post(COMPLETIONS, completion(prompt=[[65], [9999]]))
    assert (refused.status, refused.json()["error"]["param"]) == (400, "prompt")


async def test_the_most_likely_answers_are_sent_and_all_are_counted(site):
    # Each byte's log probability is -byte / 1000: the lower the letter, the likelier.
    says = {0: "zz", 1: "bbbb", 2: "a", 3: ""}
    site.engine.play = lambda handle: (
        handle.start().say(says[number_of(handle)]).finish(FinishReason.LENGTH)
        if says[number_of(handle)]
        else handle.start().finish()
    )
    answer = await site.post(COMPLETIONS, completion(n=2, best_of=4, seed=0))
    choices = answer.json()["choices"]
    assert [(choice["index"], choice["text"]) for choice in choices] == [(0, "a"), (1, "bbbb")]
    assert all(choice["logprobs"] is None for choice in choices)
    assert answer.json()["usage"]["completion_tokens"] == 7
    (record,) = site.records
    assert record.usage.completion_tokens == 7


async def test_more_answers_than_can_run_and_wait_are_a_400_that_names_the_cause(site):
    site.engine.max_requests = 5
    for path, body, param in (
        (CHAT, chat(n=6), "n"),
        (COMPLETIONS, completion(n=6), "n"),
        (COMPLETIONS, completion(n=1, best_of=6), "best_of"),
        (COMPLETIONS, completion(prompt=["a"] * 6), "prompt"),
    ):
        answer = await site.post(path, body)
        assert (answer.status, answer.json()["error"]["param"]) == (400, param)
    assert not site.engine.handles
    assert len(site.records) == 4


# -- endings --------------------------------------------------------------------------------------


async def test_a_refusal_of_one_ends_all(site):
    def play(handle):
        if len(site.engine.handles) == 3:
            site.engine.refusal = ServerOverloaded("full", retry_after_s=2)

    site.engine.play = play
    answer = await site.post(CHAT, chat(n=5))
    assert answer.status == 429
    assert len(site.engine.handles) == 3
    assert all(handle.is_cancelled for handle in site.engine.handles)
    (record,) = site.records
    assert record.outcome is Outcome.REJECTED


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_failure_of_one_ends_all(site, is_stream):
    exchange = site.open(CHAT, chat(n=3, stream=is_stream))
    await submitted(site, 3)
    for handle in site.engine.handles[:2]:
        handle.start().say("x")
    await until(lambda: all(handle._events.empty() for handle in site.engine.handles))
    await settle()
    site.engine.handles[2].fail(GenerationFailed("broken"))
    await exchange.answer()
    if is_stream:
        assert exchange.status == 200
        *_, error, done = exchange.events()
        assert (error["error"]["code"], done) == ("generation_failed", "[DONE]")
    else:
        assert exchange.status == 502
    assert all(handle.is_cancelled for handle in site.engine.handles)
    (record,) = site.records
    assert (record.outcome, record.usage.completion_tokens) == (Outcome.BACKEND_ERROR, 2)


async def test_a_failure_before_anything_started_is_a_status_also_for_a_stream(site):
    exchange = site.open(CHAT, chat(n=3, stream=True))
    await submitted(site, 3)
    site.engine.handles[1].fail(GenerationFailed("broken"))
    await exchange.answer()
    assert exchange.status == 502
    assert all(handle.is_cancelled for handle in site.engine.handles)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("num_started", [0, 1, 3])
async def test_a_client_that_leaves_cancels_all(site, is_stream, num_started):
    exchange = site.open(CHAT, chat(n=3, stream=is_stream))
    await submitted(site, 3)
    for handle in site.engine.handles[:num_started]:
        handle.start().say("x")
    await until(lambda: all(handle._events.empty() for handle in site.engine.handles))
    exchange.disconnect()
    await asyncio.wait_for(exchange.task, 5)
    assert all(handle.is_cancelled for handle in site.engine.handles)
    (record,) = site.records
    assert record.outcome is Outcome.CLIENT_DISCONNECT


@pytest.mark.parametrize("num_started", [0, 1])
async def test_who_gets_no_lane_in_time_ends_all(num_started):
    site = Site(time_limits=TimeLimits(admission_s=0.05))
    await started(site)
    site.engine.play = lambda handle: handle.start() if len(site.engine.handles) <= num_started else None
    answer = await site.post(CHAT, chat(n=2))
    assert answer.status == 429
    assert all(handle.is_cancelled for handle in site.engine.handles)
    (record,) = site.records
    assert record.outcome is Outcome.REJECTED
    await site.runtime.stop()


async def test_a_session_is_given_up_when_the_last_choice_is_let_go():
    site = Site(session_header="x-agent-session")
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, has_session_trust=True))
    await started(site)
    named = {"x-agent-session": "agent-42"}
    first = site.open(CHAT, chat(n=2), **named)
    await submitted(site, 2)
    second = site.open(CHAT, chat(n=2), **named)
    await until(lambda: site.runtime.sessions.statistics().num_waiting == 1)
    assert len(site.engine.handles) == 2
    for handle in site.engine.handles:
        handle.release_on_cancel = False
        handle.start().say("x")
    site.engine.handles[0].finish()
    await settle()
    assert len(site.engine.handles) == 2
    site.engine.handles[1].finish()
    await first.answer()
    await submitted(site, 4)
    for handle in site.engine.handles[2:]:
        handle.start().say("y").finish()
    assert (await second.answer()).status == 200
    assert site.runtime.sessions.statistics() == SessionStatistics()
    await site.runtime.stop()


async def test_a_session_is_free_where_not_all_could_be_submitted():
    site = Site(session_header="x-agent-session")
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, has_session_trust=True))
    await started(site)

    def play(handle):
        site.engine.refusal = ServerOverloaded("full")

    site.engine.play = play
    answer = await site.post(CHAT, chat(n=3), **{"x-agent-session": "agent-42"})
    assert answer.status == 429
    assert site.runtime.sessions.statistics() == SessionStatistics()
    await site.runtime.stop()


async def test_what_was_cached_is_what_the_first_choice_found(site):
    def play(handle):
        handle._events.put_nowait(Started(at_ts=1001.0, num_cached_tokens=2 if number_of(handle) == 0 else 3))
        handle.say("x").finish()

    site.engine.play = play
    answer = await site.post(COMPLETIONS, completion(n=3, seed=0))
    assert answer.json()["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}


async def test_kept_text_has_all_choices():
    site = Site()
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
    await started(site)
    site.engine.play = speak_by_number
    for is_stream in (False, True):
        named = {"idempotency-key": f"name-{is_stream}"}
        body = chat(n=2, seed=0, stream=is_stream)
        first = await site.post(CHAT, body, **named)
        again = await site.post(CHAT, body, **named)
        assert again.body == first.body
        assert again.headers["idempotent-replayed"] == "true"
    assert [kept.answer for kept in site.kept.texts] == ["a0\n\nb1", "a0\n\nb1"]
    await site.runtime.stop()


async def test_limits_are_reserved_for_prompts_once_and_for_all_answers(site):
    taken: list[int] = []
    reserve = site.limit_desk.reserve

    async def watch(principal, *, num_tokens):
        taken.append(num_tokens)
        return await reserve(principal, num_tokens=num_tokens)

    site.limit_desk.reserve = watch
    site.engine.play = lambda handle: handle.start().say("x").finish()
    await site.post(COMPLETIONS, completion(prompt=["Once", "Twice"], n=2, best_of=3, max_tokens=10))
    assert taken == [4 + 5 + 6 * 10]
    await site.post(CHAT, chat(n=3, max_tokens=4000))
    assert taken[1:] == [len(site.engine.handles[-1].request.prompt_token_ids) + 3 * 512]


async def test_while_the_client_is_behind_no_choice_is_read_any_further():
    may_send = asyncio.Event()
    frames: list[bytes] = []

    class Respond:
        async def frame(self, frame: bytes) -> None:
            await may_send.wait()
            frames.append(frame)

    rendering = CompletionRendering(id="c", created=1, model="m", fingerprint="f")
    keeper = SimpleNamespace(add=lambda *args, **more: None)
    stream = ChoiceStream([rendering.for_choice(index) for index in range(3)], Respond(), keeper)
    parts = [AnswerPart((ContentDelta(text),)) for text in "abc"]
    tasks = [asyncio.ensure_future(stream.take(index, part)) for index, part in enumerate(parts)]
    await settle()
    assert not frames
    assert not any(task.done() for task in tasks)
    may_send.set()
    await asyncio.gather(*tasks)
    assert [json.loads(frame[6:])["choices"][0]["text"] for frame in frames] == ["a", "b", "c"]
