"""The official client's Responses API, unchanged, against the live service and the real model."""

from __future__ import annotations

import json
from typing import Annotated, Any

import httpx
import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field, StringConstraints

from tests.contract.api.test_schemas import SCHEMAS, validate


@pytest.fixture
def keeping(live):
    """A client whose key keeps text."""
    made = live.manage("api_key_create", "--user", "ada", "--name", "keeping", "--keeps-text", "--json")
    return live.client(api_key=json.loads(made)["key"])


def test_a_response(live):
    answer = live.client().responses.create(
        model=live.model, instructions="You are terse.", input="Name one colour.", max_output_tokens=16
    )

    assert answer.status in ("completed", "incomplete")
    assert answer.output_text
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert answer.store is False


def test_a_stream_equals_the_whole_response_at_temperature_zero(live):
    client = live.client()
    asked: dict[str, Any] = {
        "model": live.model,
        "input": [{"role": "user", "content": "Repeat exactly: 😸👩‍👩‍👧 你好 naïve"}],
        "temperature": 0,
        "max_output_tokens": 24,
    }
    # With the prompt in the cache, or the sums of the first would be others than those of the second.
    client.responses.create(**asked)
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        events = list(stream)

    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text == events[-1].response.output_text
    assert events[-1].type == f"response.{whole.status}"
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens


def test_what_is_sent_fits_the_schemas(live):
    asked = {
        "model": live.model,
        "input": "hi",
        "max_output_tokens": 16,
        "include": ["message.output_text.logprobs"],
    }
    validate(live.post("/responses", {**asked, "top_logprobs": 2}).json(), "Response")
    event = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/ResponseStreamEvent", **SCHEMAS})
    frames = live.post("/responses", {**asked, "stream": True}).text.removesuffix("\n\n").split("\n\n")
    assert frames[-1] == "data: [DONE]"
    events = [json.loads(frame.split("\ndata: ", 1)[1]) for frame in frames[:-1]]
    for one in events:
        event.validate(one)
    assert [one["sequence_number"] for one in events] == list(range(len(events)))


def test_a_conversation_is_stored_and_gone_on_from(live, keeping):
    first = keeping.responses.create(model=live.model, input="My name is Ada.", max_output_tokens=16)
    with keeping.responses.stream(
        model=live.model,
        input="What is my name?",
        previous_response_id=first.id,
        # Only of a response that ends by itself does the client give the whole.
        extra_body={"stop": ["e"], "max_output_tokens": 200},
    ) as stream:
        second = stream.get_final_response()

    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens
    found = keeping.responses.retrieve(second.id)
    assert (found.id, found.output_text, found.store) == (second.id, second.output_text, True)
    items = keeping.responses.input_items.list(second.id, order="asc", limit=2)
    assert [item.role for item in items] == ["user", "assistant", "user"]
    listed = httpx.get(
        f"{live.url}/v1/responses/{second.id}/input_items",
        headers={"Authorization": f"Bearer {keeping.api_key}"},
    )
    validate(listed.json(), "ResponseItemList")
    with pytest.raises(openai.NotFoundError):
        live.client().responses.retrieve(second.id)
    keeping.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        keeping.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        keeping.responses.create(model=live.model, input="x", previous_response_id=second.id)


WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def test_a_call_that_must_be_made_and_its_output(live):
    client = live.client()
    asked: dict[str, Any] = {
        "model": live.model,
        "input": "How is the weather in Rome?",
        "tools": [WEATHER],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 80,
    }
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        streamed = stream.get_final_response()

    for answer in (whole, streamed):
        (call,) = (item for item in answer.output if item.type == "function_call")
        assert (call.name, answer.status) == ("weather", "completed")
        assert len(json.loads(call.arguments)["city"]) <= 12
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
    after = client.responses.create(
        model=live.model,
        input=[{"role": "user", "content": asked["input"]}, *streamed.output, output],
        tools=[WEATHER],
        max_output_tokens=16,
    )
    assert after.usage.output_tokens >= 1


class Person(BaseModel):
    name: Annotated[str, StringConstraints(max_length=10)]
    age: Annotated[int, Field(ge=0, le=99)]


def test_an_answer_in_a_models_form(live):
    answer = live.client().responses.parse(
        model=live.model, input="Ada is 36.", text_format=Person, max_output_tokens=60
    )
    assert isinstance(answer.output_parsed, Person)


def test_an_answer_and_arguments_in_a_models_form_as_they_come(live):
    client = live.client()
    asked: dict[str, Any] = {"model": live.model, "input": "Ada is 36.", "max_output_tokens": 80}
    with client.responses.stream(**asked, text_format=Person) as stream:
        (text,) = [event for event in stream if event.type == "response.output_text.done"]
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Person)
    assert text.parsed == final.output_parsed

    called = client.responses.parse(
        **asked,
        tools=[openai.pydantic_function_tool(Person)["function"] | {"type": "function"}],
        tool_choice={"type": "function", "name": "Person"},
        parallel_tool_calls=False,
    )
    (call,) = (item for item in called.output if item.type == "function_call")
    assert Person.model_validate_json(call.arguments)


def test_errors_are_the_clients_own(live):
    client = live.client()
    with pytest.raises(openai.BadRequestError) as refusal:
        client.responses.create(model=live.model, input="x", store=True)
    assert refusal.value.param == "store"
    with pytest.raises(openai.BadRequestError) as refusal:
        client.responses.create(model=live.model, input="x", tools=[{"type": "web_search"}])
    assert "web_search" in refusal.value.message
    with pytest.raises(openai.BadRequestError) as refusal:
        client.responses.create(model=live.model, input="tok " * 100_000)
    assert (refusal.value.code, refusal.value.param) == ("context_length_exceeded", "input")
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=live.model, input="x", previous_response_id="resp_" + "a" * 32)


async def test_the_asynchronous_client_streams(live):
    async with openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key=live.key, max_retries=0) as client:
        stream = await client.responses.create(
            model=live.model, input="Say hi.", max_output_tokens=16, stream=True
        )
        kinds = [event.type async for event in stream]
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-1] in ("response.completed", "response.incomplete")
