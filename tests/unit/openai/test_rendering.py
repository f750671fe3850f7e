from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from inference.domain.events import FinishReason, Usage
from inference.domain.generation_result import GenerationResult
from inference.domain.logprobs import LikelyToken, ScoredToken
from inference.domain.message_deltas import (
    Answer,
    AssistantMessage,
    ContentDelta,
    MessageBuilder,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.domain.timings import Timings
from inference.openai.chunk_form import timings_object
from inference.openai.rendering import ChatRendering, CompletionRendering

SCHEMAS = Path(__file__).parents[2] / "schemas" / "openai.json"
USAGE = Usage(prompt_tokens=12, completion_tokens=3, cached_tokens=4, reasoning_tokens=2)
TIMINGS = Timings(
    num_prompt_tokens=12,
    num_predicted_tokens=3,
    num_cached_tokens=4,
    queue_wait_s=0.5,
    prompt_s=2.0,
    predicted_s=1.5,
)
TEXTS = ["", "Hi", 'quote " and \\', "line\nbreak\r\n", "😸 你好", "\u2028\0\x1f", "data: [DONE]\n\n"]


@cache
def validator(name: str) -> Any:
    schemas = json.loads(SCHEMAS.read_text())
    return jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{name}", **schemas})


def chat(wants_usage: bool = False, wants_logprobs: bool = False) -> ChatRendering:
    return ChatRendering(
        id="chatcmpl-1",
        created=1700,
        model='m"x',
        fingerprint="fp",
        wants_usage=wants_usage,
        wants_logprobs=wants_logprobs,
    )


def completion(wants_usage: bool = False, wants_logprobs: bool = False) -> CompletionRendering:
    return CompletionRendering(
        id="cmpl-1",
        created=1700,
        model='m"x',
        fingerprint="fp",
        wants_usage=wants_usage,
        wants_logprobs=wants_logprobs,
    )


def result(reason: FinishReason) -> GenerationResult:
    return GenerationResult(reason, USAGE, TIMINGS)


def said(text: str) -> Answer:
    return Answer(AssistantMessage(text))


def payloads(frames: bytes) -> list[bytes]:
    """The JSON of each event."""
    assert b"\r" not in frames
    assert frames.endswith(b"\n\n")
    lines = frames[:-2].split(b"\n\n")
    assert all(line.startswith(b"data: ") for line in lines)
    return [line.removeprefix(b"data: ") for line in lines]


def payload(frames: bytes) -> bytes:
    (only,) = payloads(frames)
    return only


def parsed(chunk: bytes, schema: str) -> dict[str, Any]:
    assert b"\n" not in chunk
    assert b"\r" not in chunk
    value = json.loads(chunk)
    validator(schema).validate(value)
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("text", TEXTS)
def test_a_whole_chat_answer(text: str) -> None:
    value = parsed(chat().whole(said(text), result(FinishReason.STOP)), "CreateChatCompletionResponse")
    choice = value["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": text, "refusal": None}
    assert (choice["finish_reason"], choice["logprobs"], choice["index"]) == ("stop", None, 0)
    assert value["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    assert value["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert value["usage"]["total_tokens"] == 15
    assert "timings" in value
    answer = ChatCompletion.model_validate(value)
    assert answer.choices[0].message.content == text
    assert (answer.id, answer.created, answer.model, answer.system_fingerprint) == (
        "chatcmpl-1",
        1700,
        'm"x',
        "fp",
    )


@pytest.mark.parametrize("wants_usage", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_chat_chunks(text: str, wants_usage: bool) -> None:
    rendering = chat(wants_usage)
    chunks = [
        parsed(chunk, "CreateChatCompletionStreamResponse")
        for chunk in (
            payload(rendering.begin(USAGE)),
            payload(rendering.delta(ContentDelta(text))),
            payloads(rendering.end(result(FinishReason.LENGTH)))[0],
        )
    ]
    for value in chunks:
        assert ("usage" in value) is wants_usage
        assert value.get("usage") is None
        assert "timings" not in value
        assert value["choices"][0]["logprobs"] is None
        ChatCompletionChunk.model_validate(value)
    role, middle, last = (value["choices"][0] for value in chunks)
    assert role["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert middle["delta"] == {"content": text}
    assert last["delta"] == {}
    assert [part["finish_reason"] for part in (role, middle, last)] == [None, None, "length"]
    assert len({(value["id"], value["created"], value["system_fingerprint"]) for value in chunks}) == 1


def test_the_usage_chunk_of_a_chat_has_no_choices() -> None:
    _, last = payloads(chat(True).end(result(FinishReason.STOP)))
    value = parsed(last, "CreateChatCompletionStreamResponse")
    assert value["choices"] == []
    assert value["usage"]["completion_tokens"] == 3
    assert value["timings"]["prompt_n"] == 12
    chunk = ChatCompletionChunk.model_validate(value)
    assert chunk.usage is not None
    assert chunk.usage.total_tokens == 15


@pytest.mark.parametrize("text", TEXTS)
def test_a_whole_completion(text: str) -> None:
    value = parsed(completion().whole(said(text), result(FinishReason.LENGTH)), "CreateCompletionResponse")
    assert value["choices"] == [{"index": 0, "text": text, "logprobs": None, "finish_reason": "length"}]
    assert Completion.model_validate(value).choices[0].text == text


@pytest.mark.parametrize("wants_usage", [False, True])
def test_completion_chunks(wants_usage: bool) -> None:
    rendering = completion(wants_usage)
    assert rendering.begin(USAGE) == b""
    middle = json.loads(payload(rendering.delta(ContentDelta("Hi\n"))))
    end = payloads(rendering.end(result(FinishReason.STOP)))
    assert len(end) == (2 if wants_usage else 1)
    last = json.loads(end[0])
    assert middle["choices"] == [{"index": 0, "text": "Hi\n", "logprobs": None, "finish_reason": None}]
    assert last["choices"] == [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]
    for value in (middle, last):
        assert ("usage" in value) is wants_usage
        # The schema is that of a whole answer, and knows no null here; the rest of it must hold.
        assert value.pop("usage", None) is None
        value["choices"][0]["finish_reason"] = "stop"
        validator("CreateCompletionResponse").validate(value)
    total = parsed(payloads(completion(True).end(result(FinishReason.STOP)))[1], "CreateCompletionResponse")
    assert total["choices"] == []
    assert Completion.model_validate(total).usage is not None


def test_timings_have_the_names_that_clients_know() -> None:
    assert timings_object(TIMINGS) == {
        "queue_wait_ms": 500.0,
        "prompt_n": 12,
        "prompt_ms": 2000.0,
        "prompt_per_second": 6.0,
        "suffix_prefill_n": 8,
        "predicted_n": 3,
        "predicted_ms": 1500.0,
        "predicted_per_second": 2.0,
    }


def test_drafts_are_shown_where_there_were_some() -> None:
    assert not {"draft_n", "draft_n_accepted"} & timings_object(TIMINGS).keys()
    drafted = timings_object(replace(TIMINGS, num_drafted_tokens=7, num_accepted_tokens=0))
    assert (drafted["draft_n"], drafted["draft_n_accepted"]) == (7, 0)


def test_rates_without_time_are_zero() -> None:
    timings = timings_object(Timings(num_prompt_tokens=5, num_predicted_tokens=0))
    assert (timings["prompt_per_second"], timings["predicted_per_second"]) == (0.0, 0.0)


HALVES = Answer(
    AssistantMessage("Hi😸"),
    (
        ScoredToken("Hi", b"Hi", -0.5, 0, (LikelyToken("Hi", b"Hi", -0.5), LikelyToken("<e>", None, -1.5))),
        ScoredToken("\ufffd", b"\xf0\x9f", -0.25, 2, (LikelyToken("\ufffd", b"\xf0", -0.125),)),
        ScoredToken("\ufffd", b"\x98\xb8", -0.0, 2),
    ),
)


@pytest.mark.parametrize("is_stream", [False, True])
def test_logprobs_of_a_chat(is_stream: bool) -> None:
    rendering = chat(wants_logprobs=True)
    if is_stream:
        value = parsed(
            payload(rendering.delta(ContentDelta("Hi😸"), HALVES.tokens)),
            "CreateChatCompletionStreamResponse",
        )
        ChatCompletionChunk.model_validate(value)
        assert value["choices"][0]["delta"] == {"content": "Hi😸"}
    else:
        body = rendering.whole(HALVES, result(FinishReason.STOP))
        value = parsed(body, "CreateChatCompletionResponse")
        ChatCompletion.model_validate(value)
    logprobs = value["choices"][0]["logprobs"]
    assert logprobs["refusal"] is None
    content = logprobs["content"]
    assert b"".join(bytes(token["bytes"]) for token in content).decode() == "Hi😸"
    assert content[0] == {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": [72, 105],
        "top_logprobs": [
            {"token": "Hi", "logprob": -0.5, "bytes": [72, 105]},
            {"token": "<e>", "logprob": -1.5, "bytes": None},
        ],
    }
    assert content[2]["top_logprobs"] == []


@pytest.mark.parametrize("is_stream", [False, True])
def test_logprobs_of_a_completion(is_stream: bool) -> None:
    rendering = completion(wants_logprobs=True)
    if is_stream:
        value = json.loads(payload(rendering.delta(ContentDelta("Hi😸"), HALVES.tokens)))
        value["choices"][0]["finish_reason"] = "stop"
        validator("CreateCompletionResponse").validate(value)
    else:
        body = rendering.whole(HALVES, result(FinishReason.STOP))
        value = parsed(body, "CreateCompletionResponse")
    assert Completion.model_validate(value).choices[0].text == "Hi😸"
    assert value["choices"][0]["logprobs"] == {
        "tokens": ["Hi", "bytes:\\xf0\\x9f", "bytes:\\x98\\xb8"],
        "token_logprobs": [-0.5, -0.25, -0.0],
        "top_logprobs": [
            {"Hi": -0.5, "<e>": -1.5},
            {"bytes:\\xf0": -0.125, "bytes:\\xf0\\x9f": -0.25},
            {"bytes:\\x98\\xb8": -0.0},
        ],
        "text_offset": [0, 2, 2],
    }


def test_logprobs_of_an_answer_without_tokens_are_an_empty_list_and_not_null() -> None:
    body = chat(wants_logprobs=True).whole(said(""), result(FinishReason.STOP))
    value = parsed(body, "CreateChatCompletionResponse")
    assert value["choices"][0]["logprobs"] == {"content": [], "refusal": None}
    body = completion(wants_logprobs=True).whole(said(""), result(FinishReason.STOP))
    value = parsed(body, "CreateCompletionResponse")
    assert value["choices"][0]["logprobs"]["tokens"] == []


CALLS: list[MessageDelta] = [
    ReasoningDelta("I must "),
    ReasoningDelta("look."),
    ToolCallBegin(0, "call_1", "weather"),
    ToolCallArguments(0, '{"city":'),
    ToolCallArguments(0, ' "Rome"}'),
    ToolCallEnd(0),
    ToolCallBegin(1, "call_2", "time"),
    ToolCallArguments(1, "{}"),
    ToolCallEnd(1),
]


def with_tools() -> ChatRendering:
    return ChatRendering(id="chatcmpl-1", created=1700, model="m", fingerprint="fp", offers_tools=True)


def test_a_whole_answer_that_is_calls() -> None:
    answer = Answer(MessageBuilder(CALLS).message())
    value = parsed(
        with_tools().whole(answer, result(FinishReason.TOOL_CALLS)), "CreateChatCompletionResponse"
    )
    assert value["choices"][0]["finish_reason"] == "tool_calls"
    assert value["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "I must look.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
            },
            {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
        ],
    }
    assert ChatCompletion.model_validate(value).choices[0].message.tool_calls


def test_chunks_of_calls() -> None:
    rendering = with_tools()
    frames = rendering.begin(USAGE) + b"".join([rendering.delta(delta) for delta in CALLS])
    frames += rendering.end(result(FinishReason.TOOL_CALLS))
    values = [parsed(chunk, "CreateChatCompletionStreamResponse") for chunk in payloads(frames)]
    deltas = [ChatCompletionChunk.model_validate(value).choices[0].delta for value in values]
    assert [value["choices"][0]["delta"] for value in values] == [
        {"role": "assistant", "content": None, "refusal": None},
        {"reasoning_content": "I must "},
        {"reasoning_content": "look."},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ' "Rome"}'}}]},
        {
            "tool_calls": [
                {
                    "index": 1,
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "time", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert values[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert deltas[3].tool_calls is not None


def test_tokens_of_a_call_are_listed_with_it() -> None:
    value = parsed(
        payload(with_tools().delta(ToolCallEnd(0), HALVES.tokens)), "CreateChatCompletionStreamResponse"
    )
    assert len(value["choices"][0]["logprobs"]["content"]) == 3
    assert value["choices"][0]["delta"] == {}
