"""What is sent fits OpenAI's schemas and types, and a stream adds up to the whole response."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openai._types import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from inference.domain.errors import GenerationFailed, RateLimitExceeded
from inference.domain.events import FinishReason, Usage
from inference.domain.generation_result import GenerationResult
from inference.domain.logprobs import LikelyToken, ScoredToken
from inference.domain.message_deltas import (
    Answer,
    ContentDelta,
    MessageBuilder,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.domain.requests import SamplingParams
from inference.domain.timings import Timings
from inference.openai.responses.rendering import ResponseRendering, response_members
from inference.openai.responses.validation import parse_response_request

SCHEMAS = json.loads((Path(__file__).parents[3] / "schemas" / "openai.json").read_text())
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
BEFORE = Usage(prompt_tokens=12, completion_tokens=0, cached_tokens=4)
AFTER = Usage(prompt_tokens=12, completion_tokens=7, cached_tokens=4, reasoning_tokens=2)
ASKED: dict[str, Any] = {
    "model": "m",
    "input": "hi",
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    "metadata": {"a": "b"},
    "reasoning": {"effort": "low"},
}

ANSWERS: dict[str, list[MessageDelta]] = {
    "text": [ContentDelta("Hé"), ContentDelta(' "\n😸'), ContentDelta("\u2028")],
    "nothing": [],
    "empty text": [ContentDelta("")],
    "thinking": [ReasoningDelta("Well, "), ReasoningDelta("so."), ContentDelta("Yes.")],
    "calls": [
        ReasoningDelta("I must look."),
        ContentDelta("Looking."),
        ToolCallBegin(0, "call_1", "look"),
        ToolCallArguments(0, '{"at":'),
        ToolCallArguments(0, ' "é"}'),
        ToolCallEnd(0),
        ToolCallBegin(1, "call_2", "look"),
        ToolCallArguments(1, "{}"),
        ToolCallEnd(1),
        ContentDelta("Done."),
    ],
    "a call that breaks off": [ToolCallBegin(0, "call_1", "look"), ToolCallArguments(0, '{"a')],
}


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", **SCHEMAS})


def rendering() -> ResponseRendering:
    request = parse_response_request(json.dumps(ASKED).encode(), strict_fields=True)
    members = response_members(
        request, id="resp_1", created=1700, model="m", sampling=SamplingParams(), is_stored=True
    )
    return ResponseRendering(members=members, now=lambda: 1701.5)


def result(reason: FinishReason = FinishReason.STOP) -> GenerationResult:
    return GenerationResult(reason, AFTER, Timings(num_prompt_tokens=12, num_predicted_tokens=7))


def events(frames: bytes) -> list[dict[str, Any]]:
    """Each event, checked; the stream's last word is cut off."""
    found = []
    text = frames.decode()
    assert text.endswith("data: [DONE]\n\n")
    for frame in text.removesuffix("data: [DONE]\n\n").removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        validator("ResponseStreamEvent").validate(value)
        EVENT.validate_python(value)
        found.append(value)
    assert [value["sequence_number"] for value in found] == list(range(len(found)))
    return found


def stream(deltas: list[MessageDelta], ended: GenerationResult) -> list[dict[str, Any]]:
    one = rendering()
    frames = one.begin(BEFORE) + b"".join([one.delta(delta) for delta in deltas])
    return events(frames + one.end(ended) + one.conclude())


def whole(deltas: list[MessageDelta], ended: GenerationResult, tokens: Any = ()) -> dict[str, Any]:
    answer = Answer(MessageBuilder(deltas).message(), tokens, tuple(deltas))
    value: dict[str, Any] = json.loads(rendering().whole(answer, ended))
    validator("Response").validate(value)
    Response.model_validate(value)
    return value


def without_ids(response: dict[str, Any]) -> dict[str, Any]:
    return {**response, "output": [{**item, "id": ""} for item in response["output"]]}


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_stream_ends_with_the_whole_response(name: str, reason: FinishReason) -> None:
    found = stream(ANSWERS[name], result(reason))
    last = found[-1]
    status = "incomplete" if reason is FinishReason.LENGTH else "completed"
    assert last["type"] == f"response.{status}" and last["response"]["status"] == status
    assert without_ids(last["response"]) == without_ids(whole(ANSWERS[name], result(reason)))
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert done == last["response"]["output"]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_clients_own_accumulator_follows(name: str) -> None:
    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in stream(ANSWERS[name], result()):
        state.handle_event(EVENT.validate_python(event))
    final = state._completed_response
    assert final is not None
    assert final.output_text == (MessageBuilder(ANSWERS[name]).message().content or "")
    assert final.usage.output_tokens_details.reasoning_tokens == 2


@pytest.mark.parametrize("name", ANSWERS)
def test_items_open_and_close_in_order(name: str) -> None:
    open_index, next_index = None, 0
    for event in stream(ANSWERS[name], result())[2:-1]:
        if event["type"] == "response.output_item.added":
            assert open_index is None and event["output_index"] == next_index
            assert event["item"]["status"] == "in_progress"
            open_index, next_index = next_index, next_index + 1
        else:
            assert event["output_index"] == open_index
            if event["type"] == "response.output_item.done":
                open_index = None
    assert open_index is None


def test_the_order_of_events_of_a_text() -> None:
    assert [event["type"] for event in stream(ANSWERS["text"], result())] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_a_cut_answer_says_so() -> None:
    response = whole(ANSWERS["a call that breaks off"], result(FinishReason.LENGTH))
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert response["output"][0]["arguments"] == '{"a'


def test_members_of_a_response() -> None:
    response = whole(ANSWERS["text"], result())
    assert (response["id"], response["created_at"], response["completed_at"]) == ("resp_1", 1700, 1701)
    assert (response["instructions"], response["metadata"], response["store"]) == (
        "Be brief.",
        {"a": "b"},
        True,
    )
    assert response["usage"] == {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 19,
    }
    assert response["temperature"] == SamplingParams().temperature
    assert Response.model_validate(response).output_text == 'Hé "\n😸\u2028'


TOKENS = (
    ScoredToken("Hi", b"Hi", -0.5, 0, (LikelyToken("Hi", b"Hi", -0.5), LikelyToken("<e>", None, -1.5))),
)


def test_logprobs() -> None:
    one = rendering()
    frames = one.begin(BEFORE) + one.delta(ContentDelta("Hi"), TOKENS) + one.end(result()) + one.conclude()
    found = events(frames)
    top = [{"token": "Hi", "logprob": -0.5}, {"token": "<e>", "logprob": -1.5}]
    expected = [{"token": "Hi", "logprob": -0.5, "top_logprobs": top}]
    assert [event["logprobs"] for event in found if "logprobs" in event] == [expected, expected]
    part = found[-1]["response"]["output"][0]["content"][0]
    assert part["logprobs"][0]["bytes"] == [72, 105]
    assert whole([ContentDelta("Hi")], result(), TOKENS)["output"][0]["content"][0] == part


def test_text_frames_are_deltas_of_text() -> None:
    one, other = rendering(), rendering()
    for text in ("a", "", 'b"\n'):
        first, second = one.text_frame(text), other.delta(ContentDelta(text))
        assert len(first) == len(second) and first.count(b"event: ") == second.count(b"event: ")
    assert without_ids_of(one) == without_ids_of(other)


def without_ids_of(one: ResponseRendering) -> dict[str, Any]:
    one.end(result())
    return without_ids(one.final_object)


def test_a_failure_of_a_response_that_has_begun() -> None:
    one = rendering()
    frames = one.begin(BEFORE) + one.delta(ContentDelta("Hi"))
    last = events(frames + one.error_event(GenerationFailed("It broke.")))[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "server_error", "message": "It broke."}
    assert last["response"]["output"][0]["status"] == "incomplete"


def test_a_failure_before_there_is_a_response() -> None:
    (event,) = events(rendering().error_event(RateLimitExceeded("Too much.")))
    assert (event["type"], event["code"], event["message"]) == ("error", "rate_limit_exceeded", "Too much.")
