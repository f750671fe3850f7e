"""The official client, unchanged, against the live service and the real model."""

import json
from typing import Annotated, Literal

import openai
import pytest
from pydantic import BaseModel, Field


def test_models(live):
    client = live.client()

    models = client.models.list().data

    assert [m.id for m in models] == [live.model]
    assert client.models.retrieve(live.model).owned_by == "skippy"


def test_chat(live):
    answer = live.client().chat.completions.create(
        model=live.model, messages=[{"role": "user", "content": "Name one colour."}], max_tokens=12
    )

    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens <= 12


def test_a_stream_equals_the_whole_answer_at_temperature_zero(live):
    client = live.client()
    asked = {
        "model": live.model,
        "messages": [{"role": "user", "content": "Repeat exactly: 😸👩‍👩‍👧 你好 naïve"}],
        "temperature": 0,
        "max_tokens": 40,
    }

    # With the prompt in the cache, or the sums of the first would be others than those of the second.
    client.chat.completions.create(**asked)
    whole = client.chat.completions.create(**asked).choices[0]
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )

    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.message.content
    assert "\ufffd" not in text
    assert chunks[-1].usage.completion_tokens > 0
    assert len({c.id for c in chunks}) == 1
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [
        whole.finish_reason
    ]


def test_completions(live):
    client = live.client()

    whole = client.completions.create(
        model=live.model, prompt="One, two, three,", max_tokens=5, temperature=0
    )
    parts = client.completions.create(
        model=live.model, prompt="One, two, three,", max_tokens=5, temperature=0, stream=True
    )

    assert whole.choices[0].text
    assert "".join(p.choices[0].text for p in parts) == whole.choices[0].text


def test_a_seed_repeats_an_answer_and_absence_does_not(live):
    client = live.client()

    def ask(**more):
        return (
            client.chat.completions.create(
                model=live.model,
                messages=[{"role": "user", "content": "Tell me about rivers"}],
                max_tokens=30,
                **more,
            )
            .choices[0]
            .message.content
        )

    assert ask(seed=7) == ask(seed=7)
    assert ask(seed=0) == ask(seed=0)
    assert len({ask(temperature=1.5) for _ in range(3)}) > 1


@pytest.mark.parametrize("key", ["", "nope", "sk-skippy-" + "a" * 49])
def test_bad_keys_are_authentication_errors(live, key):
    with pytest.raises((openai.AuthenticationError, openai.APIConnectionError)) as refusal:
        live.client(api_key=key or "x").models.list()

    assert refusal.value.status_code == 401
    assert refusal.value.code == "invalid_api_key"


def test_bad_requests_are_bad_request_errors_that_name_the_field(live):
    client = live.client()

    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(
            model=live.model, messages=[{"role": "user", "content": "x"}], temperature=3
        )

    assert refusal.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model=live.model, messages=[])
    assert refusal.value.param == "messages"
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model=live.model, messages=[{"role": "user", "content": "x"}], n=129)
    assert refusal.value.param == "n"


def test_an_unknown_model_is_a_not_found_error(live):
    with pytest.raises(openai.NotFoundError) as refusal:
        live.client().chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])

    assert refusal.value.code == "model_not_found"


@pytest.mark.parametrize("streaming", [True, False])
def test_a_prompt_that_cannot_fit_is_a_400_with_its_code(live, streaming):
    with pytest.raises(openai.BadRequestError) as refusal:
        live.client().chat.completions.create(
            model=live.model,
            messages=[{"role": "user", "content": "tok " * 100_000}],
            stream=streaming,
        )

    assert refusal.value.code == "context_length_exceeded"
    assert refusal.value.param == "messages"


async def test_the_asynchronous_client_streams_many_at_once(live):
    import asyncio

    client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key=live.key, max_retries=0)

    async def ask(number: int) -> str:
        stream = await client.chat.completions.create(
            model=live.model,
            messages=[{"role": "user", "content": f"Count to {number}"}],
            max_tokens=10,
            stream=True,
        )
        return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

    texts = await asyncio.gather(*(ask(n) for n in range(12)))

    assert all(texts)
    await client.close()


def test_calls_are_the_same_streamed_and_whole(live):
    tools = [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "strict": True,
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string", "maxLength": 12}},
                    "required": ["city"],
                    "additionalProperties": False,
                },
            },
        }
    ]
    asked = {
        "model": live.model,
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": tools,
        "tool_choice": "required",
        "temperature": 0,
        "max_tokens": 200,
        "stream": False,
    }
    client = live.client()

    whole = client.chat.completions.create(**asked | {"parallel_tool_calls": False})
    with client.chat.completions.stream(
        **{name: value for name, value in asked.items() if name != "stream"}, parallel_tool_calls=False
    ) as stream:
        streamed = stream.get_final_completion()

    calls = [
        [(call.function.name, call.function.arguments) for call in answer.choices[0].message.tool_calls]
        for answer in (whole, streamed)
    ]
    assert calls[0] == calls[1]
    assert calls[0][0][0] == "get_weather"
    assert set(json.loads(calls[0][0][1])) == {"city"}
    assert [one.choices[0].finish_reason for one in (whole, streamed)] == ["tool_calls"] * 2
    # With others allowed behind it, the deltas are written the moment that they are there.
    events = live.events(**{name: value for name, value in asked.items() if name not in ("model", "stream")})
    names = [
        part["function"].get("name")
        for event in events[:-1]
        for choice in event["choices"]
        for part in choice["delta"].get("tool_calls") or []
    ]
    assert names[0] == "get_weather"
    assert events[-2]["choices"][0]["finish_reason"] in ("tool_calls", "length")


class Forecast(BaseModel):
    """The weather of some days."""

    city: Annotated[str, Field(max_length=12)]
    unit: Literal["celsius", "fahrenheit"]
    days: Annotated[int, Field(ge=1, le=9)] | None


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "Forecast"}}])
def test_the_clients_own_tools_parse_the_arguments(live, choice):
    asked = {
        "model": live.model,
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [openai.pydantic_function_tool(Forecast)],
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "max_tokens": 120,
    }
    client = live.client()

    whole = client.chat.completions.parse(**asked)
    with client.chat.completions.stream(**asked) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        streamed = stream.get_final_completion()

    for answer in (whole, streamed):
        (call,) = answer.choices[0].message.tool_calls
        assert isinstance(call.function.parsed_arguments, Forecast)
        assert answer.choices[0].finish_reason == "tool_calls"
    assert [event.parsed_arguments for event in done] == [call.function.parsed_arguments]
