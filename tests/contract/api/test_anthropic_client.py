"""Anthropic's official client, unchanged, against the live service and the real model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import anthropic
import httpx
import pytest
from pydantic import BaseModel

HI: list[Any] = [{"role": "user", "content": "Say hi."}]


@pytest.fixture
def client(live) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=live.url, api_key=live.key, max_retries=0) as made:
        yield made


def test_a_message(live, client):
    answer = client.messages.create(
        model=live.model,
        max_tokens=12,
        system=[{"type": "text", "text": "You are terse.", "cache_control": {"type": "ephemeral"}}],
        messages=HI,
        extra_body={"temperature": 0.5, "top_k": 20},
        metadata={"user_id": "u1"},
    )

    assert (answer.type, answer.role, answer.model) == ("message", "assistant", live.model)
    assert [block.type for block in answer.content] == ["text"]
    assert answer.stop_reason in ("end_turn", "max_tokens")
    assert 1 <= answer.usage.output_tokens <= 12
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 10


def test_a_stream_equals_the_whole_message_at_temperature_zero(live, client):
    asked: dict[str, Any] = {
        "model": live.model,
        "max_tokens": 30,
        "extra_body": {"temperature": 0},
        "messages": [{"role": "user", "content": "Repeat exactly: 😸👩‍👩‍👧 你好 naïve"}],
    }
    # With the prompt in the cache, or the sums of the first would be others than those of the rest.
    client.messages.create(**asked)
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()

    assert text == whole.content[0].text == final.content[0].text
    assert (final.stop_reason, final.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert final.usage.output_tokens == whole.usage.output_tokens
    kinds = [event.type for event in client.messages.create(**asked, stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_a_stop_sequence_is_named(live, client):
    answer = client.messages.create(
        model=live.model,
        max_tokens=60,
        extra_body={"temperature": 0},
        messages=[{"role": "user", "content": "Count: one, two, three, four"}],
        stop_sequences=["zzz", "e"],
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "e")
    assert all("e" not in block.text for block in answer.content)


WEATHER: Any = {
    "name": "weather",
    "description": "The weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "days": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_a_call_that_must_be_made(live, client, choice):
    asked: dict[str, Any] = {
        "model": live.model,
        "max_tokens": 80,
        "messages": [{"role": "user", "content": "How is the weather in Rome?"}],
        "tools": [WEATHER],
        "tool_choice": {**choice, "disable_parallel_tool_use": True},
    }
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()

    for answer in (whole, streamed):
        (call,) = (block for block in answer.content if block.type == "tool_use")
        assert answer.stop_reason == "tool_use"
        assert call.name == "weather"
        assert set(call.input) == {"city", "days"}
        assert len(call.input["city"]) <= 12 and call.input["days"] <= 9
    turns = [
        *asked["messages"],
        {"role": "assistant", "content": whole.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": whole.content[-1].id, "content": "Rain."}],
        },
    ]
    after = client.messages.create(model=live.model, max_tokens=16, messages=turns, tools=[WEATHER])
    assert after.role == "assistant" and after.usage.output_tokens >= 1


class Verdict(BaseModel):
    """Without strings and numbers, whose bounds the client moves into the description."""

    kind: Literal["cat", "dog"]
    other: Literal["cat", "bird"] | None
    is_certain: bool


def test_an_answer_in_a_models_form(live, client):
    asked: dict[str, Any] = {"model": live.model, "max_tokens": 100, "messages": HI}
    whole = client.messages.parse(**asked, output_format=Verdict)
    with client.messages.stream(**asked, output_format=Verdict) as stream:
        streamed = stream.get_final_message()

    for answer in (whole, streamed):
        assert isinstance(answer.parsed_output, Verdict)
        assert answer.stop_reason == "end_turn"


def test_counting_tokens(live, client):
    short = client.messages.count_tokens(model=live.model, messages=HI)
    long = client.messages.count_tokens(model=live.model, messages=HI, system="You are terse. " * 20)
    asked = client.messages.create(model=live.model, max_tokens=1, messages=HI)

    assert short.input_tokens < long.input_tokens
    assert asked.usage.input_tokens + asked.usage.cache_read_input_tokens == short.input_tokens


async def test_the_asynchronous_client_streams(live):
    async with anthropic.AsyncAnthropic(base_url=live.url, api_key=live.key, max_retries=0) as client:
        async with client.messages.stream(model=live.model, max_tokens=8, messages=HI) as stream:
            text = "".join([part async for part in stream.text_stream])
        assert text == (await stream.get_final_message()).content[0].text


def test_errors_are_the_clients_own(live, client):
    with anthropic.Anthropic(base_url=live.url, api_key="nonsense", max_retries=0) as stranger:
        with pytest.raises(anthropic.AuthenticationError) as refusal:
            stranger.messages.create(model=live.model, max_tokens=1, messages=HI)
        assert refusal.value.body["error"]["type"] == "authentication_error"
    with pytest.raises(anthropic.NotFoundError) as refusal:
        client.messages.create(model="nope", max_tokens=1, messages=HI)
    assert refusal.value.body["error"]["type"] == "not_found_error"
    assert refusal.value.request_id == refusal.value.body["request_id"]
    with pytest.raises(anthropic.BadRequestError) as refusal:
        client.messages.create(model=live.model, max_tokens=1, messages=HI, extra_body={"temperature": 1.5})
    assert "temperature" in refusal.value.body["error"]["message"]
    with pytest.raises(anthropic.BadRequestError) as refusal:
        client.messages.create(
            model=live.model, max_tokens=1, messages=[{"role": "user", "content": "tok " * 100_000}]
        )
    assert refusal.value.body["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("headers", [["x-api-key"], ["authorization"], ["x-api-key", "authorization"]])
def test_either_header_has_the_key(live, headers):
    values = {"x-api-key": live.key, "authorization": f"Bearer {live.key}"}
    answer = httpx.post(
        f"{live.url}/v1/messages",
        json={"model": live.model, "max_tokens": 1, "messages": HI},
        headers={name: values[name] for name in headers} | {"anthropic-version": "2023-06-01"},
        timeout=60,
    )
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-remaining-requests"]
