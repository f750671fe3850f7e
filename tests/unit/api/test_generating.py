import asyncio
import json
from dataclasses import replace

import pytest

from accounts.contracts import KeyLookup, KeyState
from accounts.scopes import Scope
from inference.domain.constraint import AnyJson
from inference.domain.errors import GenerationFailed, ServerOverloaded
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from tests.unit.api.conftest import KEY, PRINCIPAL

CHAT = "/v1/chat/completions"


def chat(**fields) -> bytes:
    return json.dumps(
        {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **fields}
    ).encode()


def speak(*pieces: str, reason: FinishReason = FinishReason.STOP):
    def play(handle):
        handle.start()
        for piece in pieces:
            handle.say(piece)
        handle.finish(reason)

    return play


async def test_a_whole_answer(site):
    site.engine.play = speak("Hel", "lo", reason=FinishReason.LENGTH)

    answer = await site.post(CHAT, chat(max_tokens=9))

    assert answer.status == 200
    choice = answer.json()["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "Hello", "refusal": None}
    assert choice["finish_reason"] == "length"
    assert answer.json()["usage"]["completion_tokens"] == 5
    assert site.engine.handles[0].request.max_tokens == 9
    (record,) = site.records
    assert (record.outcome, record.usage.completion_tokens) == (Outcome.COMPLETED, 5)
    assert record.request_id == answer.headers["x-request-id"]


async def test_what_only_the_model_can_tell_is_refused_before_the_engine_is_asked(site):
    for fields, param in (
        ({"logit_bias": {"259": 1}}, "logit_bias"),
        ({"min_tokens": 10, "max_tokens": 9}, "min_tokens"),
        ({"min_tokens": 4097}, "min_tokens"),
    ):
        answer = await site.post(CHAT, chat(**fields))
        assert (answer.status, answer.json()["error"]["param"]) == (400, param)
    assert not site.engine.handles


async def test_a_default_of_the_model_cannot_make_a_parameter_idle(site):
    site.engine.play = speak("x")
    (loaded,) = site.runtime.fleet.loaded()
    greedy = replace(loaded.served.description, sampling_defaults={"temperature": 0.0})
    loaded.served = replace(loaded.served, description=greedy)

    refused = await site.post(CHAT, chat(mirostat_mode=2))
    assert (refused.status, refused.json()["error"]["param"]) == (400, "mirostat_mode")
    assert (await site.post(CHAT, chat(mirostat_mode=2, temperature=0.5))).status == 200


async def test_sampling_reaches_the_engine(site):
    site.engine.play = speak("x")

    await site.post(CHAT, chat(logit_bias={"258": 1}, min_tokens=9, max_tokens=9, repeat_penalty=1.5))

    request = site.engine.handles[0].request
    assert (request.sampling.logit_bias, request.min_tokens) == (((258, 1.0),), 9)
    assert request.sampling.repeat_penalty == 1.5


def chat_tokens(choices) -> list[dict]:
    return [token for choice in choices for token in (choice["logprobs"] or {"content": []})["content"]]


@pytest.mark.parametrize("stop", [[], ["two"], ["o 😸"], ["zzz"]])
async def test_logprobs_agree_with_the_text_streamed_or_whole(site, stop):
    site.engine.play = speak("one ", "tw", "o 😸", "🙂"[:1], "zz")
    asked = {"logprobs": True, "top_logprobs": 2, "stop": stop}

    whole = (await site.post(CHAT, chat(**asked))).json()["choices"][0]
    events = (await site.post(CHAT, chat(stream=True, **asked))).events()

    choices = [event["choices"][0] for event in events[:-1]]
    tokens = chat_tokens([whole])
    assert chat_tokens(choices) == tokens
    assert bytes(b for token in tokens for b in token["bytes"]).decode() == whole["message"]["content"]
    for choice in choices:
        text = bytes(b for token in chat_tokens([choice]) for b in token["bytes"]).decode()
        assert text == choice["delta"].get("content", "")
    assert tokens[0] == {
        "token": "o",
        "logprob": -0.111,
        "bytes": [111],
        "top_logprobs": [
            {"token": "o", "logprob": -0.111, "bytes": [111]},
            {"token": "<|im_end|>", "logprob": -9.0, "bytes": None},
        ],
    }


async def test_logprobs_without_alternatives_and_without_being_asked(site):
    site.engine.play = speak("ab")

    alone = (await site.post(CHAT, chat(logprobs=True))).json()["choices"][0]["logprobs"]
    assert [token["top_logprobs"] for token in alone["content"]] == [[], []]
    for fields in ({}, {"logprobs": False}, {"logprobs": None, "top_logprobs": None}):
        assert (await site.post(CHAT, chat(**fields))).json()["choices"][0]["logprobs"] is None


async def test_logprobs_of_a_completion_have_its_own_shape(site):
    site.engine.play = speak("ab", "c😸")
    asked = {"model": "scripted", "prompt": "x", "logprobs": 1, "stop": "c"}

    whole = (await site.post("/v1/completions", json.dumps(asked).encode())).json()["choices"][0]
    body = json.dumps({**asked, "stream": True}).encode()
    events = (await site.post("/v1/completions", body)).events()

    assert whole["text"] == "ab"
    assert whole["logprobs"] == {
        "tokens": ["a", "b"],
        "token_logprobs": [-0.097, -0.098],
        "top_logprobs": [{"a": -0.097}, {"b": -0.098}],
        "text_offset": [0, 1],
    }
    parts = [event["choices"][0]["logprobs"] for event in events[:-1] if event["choices"][0]["logprobs"]]
    for name, expected in whole["logprobs"].items():
        assert [one for part in parts for one in part[name]] == expected


async def test_a_stream_adds_up_to_the_whole_answer_and_ends_once(site):
    site.engine.play = speak("a😸"[:1], "😸b")

    answer = await site.post(CHAT, chat(stream=True, stream_options={"include_usage": True}))

    events = answer.events()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    texts = [e["choices"][0]["delta"].get("content") or "" for e in events[:-1] if e["choices"]]
    assert "".join(texts) == "a😸b"
    assert events[-1] == "[DONE]" and events.count("[DONE]") == 1
    assert events[-2]["choices"] == [] and events[-2]["usage"]["completion_tokens"] == 6
    assert [e["choices"][0]["finish_reason"] for e in events[:-2]].count("stop") == 1


async def test_a_stop_string_ends_the_answer_frees_the_engine_and_counts_no_further(site):
    def play(handle):
        handle.start().say("one tw").say("o three")

    site.engine.play = play

    answer = await site.post(CHAT, chat(stop=["two"]))

    assert answer.json()["choices"][0]["message"]["content"] == "one "
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    assert answer.json()["usage"]["completion_tokens"] == len("one two")
    assert site.engine.handles[0].is_cancelled


async def test_an_error_before_the_first_token_is_a_status_also_for_a_stream(site):
    site.engine.play = lambda handle: handle.fail(GenerationFailed("broken"))

    answer = await site.post(CHAT, chat(stream=True))

    assert answer.status == 502
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["code"] == "generation_failed"
    assert site.records[0].outcome is Outcome.BACKEND_ERROR


async def test_an_error_after_the_first_token_is_in_band_and_done_follows(site):
    site.engine.play = lambda handle: handle.start().say("abc").fail(GenerationFailed("broken"))

    answer = await site.post(CHAT, chat(stream=True))

    assert answer.status == 200
    assert answer.events()[-1] == "[DONE]"
    assert answer.events()[-2]["error"]["code"] == "generation_failed"
    assert site.records[0].usage.completion_tokens == 3
    assert len(site.records) == 1


async def test_a_refusal_of_admission_has_retry_after(site):
    site.engine.refusal = ServerOverloaded("full", retry_after_s=3)

    answer = await site.post(CHAT, chat())

    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    assert site.records[0].outcome is Outcome.REJECTED


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("phase", ["queued", "started", "speaking"])
async def test_a_client_that_leaves_cancels_at_once_in_every_phase(site, streaming, phase):
    def play(handle):
        if phase != "queued":
            handle.start()
        if phase == "speaking":
            handle.say("text")

    site.engine.play = play
    running = site.open(CHAT, chat(stream=streaming))
    while not site.engine.handles:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)

    running.disconnect()
    await asyncio.wait_for(running.task, 1.0)

    assert site.engine.handles[0].is_cancelled
    (record,) = site.records
    assert record.outcome is Outcome.CLIENT_DISCONNECT


async def test_a_server_that_cancels_the_application_ends_the_request_too(site):
    site.engine.play = lambda handle: handle.start()
    running = site.open(CHAT, chat(stream=True))
    await running.until(lambda: running.status == 200)

    running.task.cancel()
    await asyncio.wait([running.task])

    assert site.engine.handles[0].is_cancelled
    assert len(site.records) == 1


async def test_bad_bodies_are_400_with_one_record_each(site):
    bodies = [b"", b"{", b"[]", b"null", chat(temperature="hot"), chat(max_tokens=0), chat(n=129)]

    for body in bodies:
        answer = await site.post(CHAT, body)
        assert answer.status == 400, body
        assert answer.json()["error"]["type"] == "invalid_request_error"
    assert [r.outcome for r in site.records] == [Outcome.REJECTED] * len(bodies)
    assert site.engine.handles == []


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_a_key_without_the_scope_generates_nothing_and_leaves_a_record(site, path):
    site.keys[KEY] = KeyLookup(
        KeyState.VALID, replace(PRINCIPAL, scopes=frozenset(Scope) - {Scope.INFERENCE})
    )
    answer = await site.post(path, chat())
    assert (answer.status, answer.json()["error"]["code"]) == (403, "permission_denied")
    assert "inference" in answer.json()["error"]["message"]
    assert [record.error_code for record in site.records] == ["permission_denied"]
    assert (await site.get("/v1/models")).status == 200


async def test_unknown_model_is_404_and_at_main_is_the_model_itself(site):
    site.engine.play = speak("x")

    assert (await site.post(CHAT, chat(model="nope"))).json()["error"]["code"] == "model_not_found"
    assert (await site.post(CHAT, chat(model="scripted@main"))).status == 200


async def test_ignored_parameters_are_named(site):
    site.engine.play = speak("x")

    answer = await site.post(CHAT, chat(frobnicate=1))

    assert answer.headers["x-ignored-parameters"] == "frobnicate"


async def test_completions(site):
    site.engine.play = speak("there")

    whole = await site.post("/v1/completions", json.dumps({"model": "scripted", "prompt": "hi"}).encode())
    stream = await site.post(
        "/v1/completions", json.dumps({"model": "scripted", "prompt": "hi", "stream": True}).encode()
    )

    assert whole.json()["choices"][0]["text"] == "there"
    assert "".join(e["choices"][0]["text"] for e in stream.events()[:-1]) == "there"
    assert site.engine.handles[0].request.max_tokens == 16
    assert stream.events()[-1] == "[DONE]"


async def test_a_slow_start_of_one_request_does_not_hold_another(site):
    waiting = site.open(CHAT, chat())
    while not site.engine.handles:
        await asyncio.sleep(0.001)
    site.engine.play = speak("quick")

    answer = await site.post(CHAT, chat())

    assert answer.status == 200
    waiting.disconnect()
    await waiting.task


@pytest.mark.parametrize("is_stream", [True, False])
async def test_the_phases_of_a_request_are_told_streamed_or_whole(site, is_stream):
    site.engine.play = speak("Hel", "lo")

    await site.post(CHAT, chat(stream=is_stream))

    request_id = site.records[0].request_id
    assert [type(phase).__name__ for phase in site.phases] == [
        "ChatTemplateRendered",
        "Tokenized",
        "PromptPrepared",
        "ResponseBuilt",
    ]
    assert {phase.request_id for phase in site.phases} == {request_id}
    assert site.phases[0].num_messages == 1
    assert site.phases[0].num_prompt_bytes > 2
    assert site.phases[1].num_tokens == site.records[0].usage.prompt_tokens
    assert site.phases[3].is_stream is is_stream
    assert site.phases[3].num_bytes > 0


async def test_a_constraint_is_compiled_for_the_engine(site):
    site.engine.play = speak("{}")

    prompt = {"model": "scripted", "prompt": "hi", "response_format": {"type": "json_object"}}
    for path, body in (
        (CHAT, chat(response_format={"type": "json_object"})),
        ("/v1/completions", json.dumps(prompt).encode()),
    ):
        answer = await site.post(path, body)
        assert answer.status == 200
        assert site.engine.handles[-1].request.constraint is not None
    assert site.engine.constraints.specs == [AnyJson(), AnyJson()]


async def test_a_constraint_that_cannot_be_kept_is_refused_before_the_engine_is_asked(site):
    site.engine.constraints.refusal = 'Unimplemented keys: ["not"]'

    schema = {"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": {"not": {}}}}
    answer = await site.post(CHAT, chat(response_format=schema, stream=True))

    assert answer.status == 400
    assert answer.json()["error"]["param"] == "response_format.json_schema.schema"
    assert "not" in answer.json()["error"]["message"]
    assert not site.engine.handles


async def test_gbnf_is_for_those_whom_an_administrator_lets(site):
    answer = await site.post(CHAT, chat(grammar="root ::= x"))

    assert (answer.status, answer.json()["error"]["param"]) == (400, "grammar")
    assert answer.json()["error"]["code"] == "unsupported_parameter"
    assert not site.engine.constraints.specs


@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "f"}}]])
async def test_no_stop_ends_an_answer_that_is_shorter_than_its_minimum(site, tools):
    site.engine.play = lambda handle: handle.start().say("aXbXc").finish()
    fields = {"stop": ["X"], "min_tokens": 2} | ({"tools": tools} if tools else {})
    answer = await site.post(CHAT, chat(**fields))
    assert answer.json()["choices"][0]["message"]["content"] == "aXb"
    assert answer.json()["usage"]["completion_tokens"] == 4
