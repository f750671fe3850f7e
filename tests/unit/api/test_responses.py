"""The Responses API around a scripted engine: answers, storing, going on, and what is not there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from accounts.contracts import KeyLookup, KeyState
from accounts.keys import mint
from inference.domain.errors import GenerationFailed, ServerOverloaded
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from inference.domain.time_limits import TimeLimits
from tests.asgi import Exchange, exchange
from tests.scripted_engine import CHATML
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started

STRANGER = mint().plaintext


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "scripted", "input": "hi", **fields}).encode()


def says(site: Site, *texts: str) -> None:
    """The next answers, one after the other."""
    waiting = list(texts)
    site.engine.play = lambda handle: handle.start().say(waiting.pop(0)).finish()


def keeps_text(site: Site) -> None:
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
    site.keys[STRANGER] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, key_id=8, keeps_text=True))


def events(answer: Exchange) -> list[Any]:
    frames = [frame for frame in answer.body.decode().split("\n\n") if frame.startswith("event: ")]
    return [json.loads(frame.split("\ndata: ", 1)[1]) for frame in frames]


def prompt(site: Site) -> bytes:
    return bytes(one for one in site.engine.handles[-1].request.prompt_token_ids if one < 256)


async def test_a_whole_answer(site: Site) -> None:
    says(site, "Hello")
    answer = await site.post("/v1/responses", body(instructions="Be brief.", max_output_tokens=20))

    assert answer.status == 200
    found = answer.json()
    assert (found["object"], found["status"], found["model"]) == ("response", "completed", "scripted")
    assert found["output"][0]["content"][0]["text"] == "Hello"
    assert found["usage"]["output_tokens"] == 5
    assert found["store"] is False
    assert answer.headers["x-ratelimit-limit-requests"]
    assert b"system\nBe brief." in prompt(site)
    (record,) = site.records
    assert (record.endpoint, record.outcome) == ("responses", Outcome.COMPLETED)
    assert site.kept.texts == []


async def test_a_stream_ends_with_the_response_and_done(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("He").say("llo").finish(FinishReason.LENGTH)
    answer = await site.post("/v1/responses", body(stream=True))

    found = events(answer)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[0]["type"] == "response.created"
    assert found[-1]["type"] == "response.incomplete"
    assert found[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"
    assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_a_failure_in_a_stream_is_a_failed_response(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("a").fail(GenerationFailed("It broke."))
    answer = await site.post("/v1/responses", body(stream=True))

    last = events(answer)[-1]
    assert (last["type"], last["response"]["error"]["message"]) == ("response.failed", "It broke.")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert site.records[0].outcome is Outcome.BACKEND_ERROR


async def test_the_last_event_waits_until_the_response_is_stored(site: Site) -> None:
    keeps_text(site)
    says(site, "Hello")
    site.ledger.is_quick = False
    running = site.open("/v1/responses", body(stream=True))
    await running.until(lambda: b"output_item.done" in running.body)
    assert b"response.completed" not in running.body and site.kept.texts == []
    site.ledger.make_safe()
    await running.answer()

    response = events(running)[-1]["response"]
    stored = await site.get(f"/v1/responses/{response['id']}")
    assert stored.json() == response
    assert response["store"] is True


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_conversation_goes_on_from_what_is_stored(site: Site, is_stream: bool) -> None:
    keeps_text(site)
    says(site, "Hello.", "Ada.", "Bye.")
    first = (await site.post("/v1/responses", body(input="I am Ada.", instructions="Be brief."))).json()
    again = (
        await site.post("/v1/responses", body(input="Who am I?", previous_response_id=first["id"]))
    ).json()
    assert again["previous_response_id"] == first["id"]
    said = b"user\nI am Ada.\nassistant\nHello.\nuser\nWho am I?\nassistant\n"
    assert prompt(site).replace(b"\n\n", b"\n").endswith(said)
    assert b"Be brief." not in prompt(site)

    last = await site.post(
        "/v1/responses", body(input="Bye", previous_response_id=again["id"], stream=is_stream)
    )
    response = events(last)[-1]["response"] if is_stream else last.json()
    listed = (await site.get(f"/v1/responses/{response['id']}/input_items?order=asc")).json()
    texts = [item["content"][0]["text"] for item in listed["data"]]
    assert texts == ["I am Ada.", "Hello.", "Who am I?", "Ada.", "Bye"]
    assert [item["role"] for item in listed["data"]] == ["user", "assistant"] * 2 + ["user"]
    assert not listed["has_more"]
    newest = (await site.get(f"/v1/responses/{response['id']}/input_items?limit=2")).json()
    assert [item["content"][0]["text"] for item in newest["data"]] == ["Bye", "Ada."]
    assert newest["has_more"] and newest["last_id"] == listed["data"][3]["id"]
    older = await site.get(f"/v1/responses/{response['id']}/input_items?limit=2&after={newest['last_id']}")
    assert older.json()["first_id"] == listed["data"][2]["id"]


async def test_a_call_is_answered_in_the_next_request(site: Site) -> None:
    keeps_text(site)
    says(site, "a", "b")
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    first = (await site.post("/v1/responses", body(input=[{"role": "user", "content": "x"}, call]))).json()
    output = {"type": "function_call_output", "call_id": "c1", "output": "seven"}
    answered = await site.post("/v1/responses", body(input=[output], previous_response_id=first["id"]))
    assert answered.status == 200, answered.json()
    assert b"seven" in prompt(site)
    orphan = await site.post(
        "/v1/responses",
        body(input=[{**output, "call_id": "c9"}], previous_response_id=first["id"]),
    )
    assert (orphan.status, orphan.json()["error"]["param"]) == (400, "input[0].call_id")


async def test_what_is_not_stored_is_not_there(site: Site) -> None:
    keeps_text(site)
    says(site, "a", "b", "c")
    unstored = (await site.post("/v1/responses", body(store=False))).json()
    assert unstored["store"] is False and site.kept.texts == []
    stored = (await site.post("/v1/responses", body())).json()
    for response_id in (unstored["id"], "resp_none", "x" * 5000):
        assert (await site.get(f"/v1/responses/{response_id}")).status == 404
    gone_on = await site.post("/v1/responses", body(previous_response_id=unstored["id"]))
    assert (gone_on.status, gone_on.json()["error"]["type"]) == (404, "invalid_request_error")
    path = f"/v1/responses/{stored['id']}"
    other = {"authorization": f"Bearer {STRANGER}"}
    assert (await site.get(path, **other)).status == 404
    assert (await site.get(f"{path}/input_items", **other)).status == 404
    assert (await exchange(site.app, "DELETE", path, headers=other)).status == 404
    stolen = await site.post("/v1/responses", body(previous_response_id=stored["id"]), **other)
    assert stolen.status == 404


async def test_what_is_deleted_is_gone(site: Site) -> None:
    keeps_text(site)
    says(site, "a")
    made = (await site.post("/v1/responses", body())).json()
    path = f"/v1/responses/{made['id']}"
    deleted = await exchange(site.app, "DELETE", path, headers=site.headers())
    assert deleted.json() == {"id": made["id"], "object": "response", "deleted": True}
    assert site.kept.texts == []
    assert (await site.get(path)).status == 404
    assert (await exchange(site.app, "DELETE", path, headers=site.headers())).status == 404


async def test_storing_needs_a_key_that_keeps_text(site: Site) -> None:
    answer = await site.post("/v1/responses", body(store=True))
    assert (answer.status, answer.json()["error"]["param"]) == (400, "store")
    assert site.records[0].status == 400


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up", "after=none"])
async def test_bad_pages_are_refused(site: Site, query: str) -> None:
    keeps_text(site)
    says(site, "a")
    made = (await site.post("/v1/responses", body())).json()
    answer = await site.get(f"/v1/responses/{made['id']}/input_items?{query}")
    assert (answer.status, answer.json()["error"]["param"]) == (400, query.split("=", maxsplit=1)[0])


async def test_a_database_that_is_away_is_503(site: Site) -> None:
    keeps_text(site)
    site.kept.is_away = True
    assert (await site.get("/v1/responses/resp_1")).status == 503
    assert (await site.post("/v1/responses", body(previous_response_id="resp_1"))).status == 503


async def test_methods_and_keys(site: Site) -> None:
    assert (await site.get("/v1/responses")).status == 405
    wrong = await exchange(site.app, "POST", "/v1/responses/resp_1", b"{}", headers=site.headers())
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET, DELETE")
    assert (await exchange(site.app, "GET", "/v1/responses/resp_1")).status == 401


TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = 'Looking.\nTOOL_CALL {"name": "look", "arguments": {"at": "é"}}'


@pytest.mark.parametrize("is_stream", [False, True])
async def test_calls_are_items(site: Site, is_stream: bool) -> None:
    says(site, CALL)
    answer = await site.post("/v1/responses", body(tools=[TOOL], stream=is_stream))
    response = events(answer)[-1]["response"] if is_stream else answer.json()

    message, call = response["output"]
    assert message["content"][0]["text"].strip() == "Looking."
    assert (call["type"], call["name"], call["status"]) == ("function_call", "look", "completed")
    assert json.loads(call["arguments"]) == {"at": "é"}
    assert call["call_id"] and call["call_id"] != call["id"]
    assert response["status"] == "completed"
    if is_stream:
        deltas = [
            event["delta"]
            for event in events(answer)
            if "function_call" in event["type"] and "delta" in event
        ]
        assert "".join(deltas) == call["arguments"]


async def test_a_conversation_that_cannot_fit_names_the_input(site: Site) -> None:
    answer = await site.post("/v1/responses", body(input="hi " * 5000))
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["param"]) == (400, "context_length_exceeded", "input")


async def test_a_picture_for_a_model_without_a_projector_names_its_part(site: Site) -> None:
    parts = [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]
    answer = await site.post("/v1/responses", body(input=[{"role": "user", "content": parts}]))
    assert (answer.status, answer.json()["error"]["param"]) == (400, "input[0].content[0]")


async def test_tokens_are_counted_without_a_record(site: Site) -> None:
    keeps_text(site)
    says(site, "Hello.")
    asked = body(instructions="Be brief.", tools=[TOOL])
    counted = await site.post("/v1/responses/input_tokens", asked)
    assert counted.status == 200 and site.records == []
    made = (await site.post("/v1/responses", asked)).json()
    assert counted.json() == {
        "object": "response.input_tokens",
        "input_tokens": made["usage"]["input_tokens"],
    }
    longer = await site.post("/v1/responses/input_tokens", body(previous_response_id=made["id"]))
    assert longer.json()["input_tokens"] > len("hiHello.hi")
    assert (await site.post("/v1/responses/input_tokens", body(input=""))).status == 400
    assert (await site.get("/v1/responses/input_tokens")).status == 405


async def test_an_error_after_early_headers_is_an_event(site: Site) -> None:
    patient = Site(time_limits=TimeLimits(early_headers_s=0.01, keep_alive_s=0.01))
    await started(patient)
    waiting = patient.open("/v1/responses", body(stream=True))
    await waiting.until(lambda: bool(patient.engine.handles) and b": keep-alive" in waiting.body)
    patient.engine.handles[0].fail(ServerOverloaded("No lane."))
    await waiting.answer()
    (event,) = events(waiting)
    assert (event["type"], event["code"], event["sequence_number"]) == ("error", "server_overloaded", 0)
    assert waiting.body.endswith(b"data: [DONE]\n\n")
    await patient.runtime.stop()


THINKING = CHATML + "{# <think></think> #}"


async def test_thinking_is_an_item_of_its_own(site: Site) -> None:
    thoughtful = Site()
    thoughtful.engine.description = replace(
        thoughtful.engine.description, chat_templates={"default": THINKING}
    )
    await started(thoughtful)
    says(thoughtful, "<think>Hm.</think>Yes.", "<think>Hm.</think>Yes.")
    whole = (await thoughtful.post("/v1/responses", body())).json()
    streamed = events(await thoughtful.post("/v1/responses", body(stream=True)))[-1]["response"]
    for response in (whole, streamed):
        thought, message = response["output"]
        assert (thought["type"], thought["content"][0]["text"]) == ("reasoning", "Hm.")
        assert message["content"][0]["text"] == "Yes."
        assert response["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    await thoughtful.runtime.stop()


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_repeated_request_gets_the_same_response(site: Site, is_stream: bool) -> None:
    keeps_text(site)
    says(site, "Hello.")
    asked = body(stream=is_stream)
    first = await site.post("/v1/responses", asked, **{"idempotency-key": "once"})
    again = await site.post("/v1/responses", asked, **{"idempotency-key": "once"})
    assert again.body == first.body and again.headers["idempotent-replayed"] == "true"
    assert len(site.engine.handles) == len(site.kept.texts) == 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_numbers_of_any_size_are_told_back(site: Site, is_stream: bool) -> None:
    keeps_text(site)
    says(site, "Hello.")
    schema = {"type": "object", "properties": {"a": {"maximum": 10**40}}}
    item = {"role": "user", "content": "hi", "odd": -(10**30)}
    answer = await site.post(
        "/v1/responses", body(input=[item], tools=[{**TOOL, "parameters": schema}], stream=is_stream)
    )
    response = events(answer)[-1]["response"] if is_stream else answer.json()
    assert response["tools"][0]["parameters"] == schema
    assert (await site.get(f"/v1/responses/{response['id']}")).json() == response
    listed = await site.get(f"/v1/responses/{response['id']}/input_items")
    assert listed.json()["data"][0]["odd"] == -(10**30)
