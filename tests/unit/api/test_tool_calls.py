"""Calls and thinking through the door, read with OpenAI's own client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from accounts.contracts import KeyLookup, KeyState
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from tests.scripted_engine import ScriptedEngine
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started
from tests.unit.openai.test_rendering import validator

CHAT = "/v1/chat/completions"
# A template as Qwen's are: it knows tools and thinking.
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n"
    "{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}"
    "{{ m.content or '' }}{% for call in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking %}<think>\n{% endif %}{% endif %}"
)
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
    for name in ("get_time", "get_weather")
]
ASK: Any = [{"role": "user", "content": "What time is it in Rome?"}]


def call(name: str, city: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "{city}"}}}}\n</tool_call>'


def play(*pieces: str, reason: FinishReason = FinishReason.STOP) -> Any:
    def say(handle: Any) -> None:
        handle.start()
        for piece in pieces:
            handle.say(piece)
        handle.finish(reason)

    return say


def engine_of(template: str) -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.description = replace(engine.description, chat_templates={"default": template})
    return engine


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site(engine=engine_of(TEMPLATE))
    await started(made)
    yield made
    await made.runtime.stop()


@pytest.fixture
async def client(site: Site) -> AsyncIterator[openai.AsyncOpenAI]:
    transport = httpx.ASGITransport(app=site.app)
    async with openai.AsyncOpenAI(
        base_url="http://skippy/v1",
        api_key=KEY,
        max_retries=0,
        http_client=httpx.AsyncClient(transport=transport),
    ) as made:
        yield made


async def whole(client: openai.AsyncOpenAI, **fields: Any) -> ChatCompletion:
    fields = {"messages": ASK, "tools": TOOLS, **fields}
    answer = await client.chat.completions.create(model="scripted", **fields)
    assert isinstance(answer, ChatCompletion)
    return answer


async def chunks(client: openai.AsyncOpenAI, **fields: Any) -> list[ChatCompletionChunk]:
    fields = {"messages": ASK, "tools": TOOLS, "stream": True, **fields}
    stream = await client.chat.completions.create(
        model="scripted", stream_options={"include_usage": True}, **fields
    )
    return [chunk async for chunk in stream]


def added_up(found: list[ChatCompletionChunk]) -> dict[str, Any]:
    """What a client makes of the chunks of one answer."""
    message: dict[str, Any] = {"content": None, "reasoning_content": None, "tool_calls": []}
    for chunk in found:
        for choice in chunk.choices:
            delta = choice.delta.model_dump()
            for key in ("content", "reasoning_content"):
                if delta.get(key) is not None:
                    message[key] = (message[key] or "") + delta[key]
            for part in delta.get("tool_calls") or []:
                if part["index"] == len(message["tool_calls"]):
                    assert part["id"]
                    assert part["type"] == "function"
                    assert part["function"]["arguments"] == ""
                    message["tool_calls"].append((part["id"], part["function"]["name"], ""))
                else:
                    call_id, name, arguments = message["tool_calls"][part["index"]]
                    more = part["function"]["arguments"]
                    message["tool_calls"][part["index"]] = (call_id, name, arguments + more)
            if choice.finish_reason is not None:
                message["finish_reason"] = choice.finish_reason
    return message


async def both(site: Site, client: openai.AsyncOpenAI, **fields: Any) -> dict[str, Any]:
    """The answer, which must be the same streamed and whole but for the ids of calls."""
    answer = await whole(client, **fields)
    found = await chunks(client, **fields)
    (choice,) = answer.choices
    sent = choice.message.model_dump()
    message = {
        "content": sent["content"],
        "reasoning_content": sent.get("reasoning_content"),
        "tool_calls": [
            (one["function"]["name"], one["function"]["arguments"]) for one in sent["tool_calls"] or []
        ],
        "finish_reason": choice.finish_reason,
    }
    streamed = added_up(found)
    streamed["tool_calls"] = [(name, arguments) for _, name, arguments in streamed["tool_calls"]]
    assert streamed == message
    usage = found[-1].usage
    assert usage is not None
    assert answer.usage is not None
    assert usage.model_dump() == answer.usage.model_dump()
    return {**message, "usage": answer.usage}


async def test_a_call_is_the_same_streamed_and_whole(site: Site, client: openai.AsyncOpenAI) -> None:
    site.engine.play = play("Let me look.\n", *call("get_time", "Rome"), "\n", *call("get_weather", "Oslo"))

    message = await both(site, client)

    assert message["content"] == "Let me look."
    assert message["tool_calls"] == [("get_time", '{"city": "Rome"}'), ("get_weather", '{"city": "Oslo"}')]
    assert message["finish_reason"] == "tool_calls"
    assert site.records[0].outcome is Outcome.COMPLETED


async def test_an_answer_of_calls_alone_has_no_content(site: Site, client: openai.AsyncOpenAI) -> None:
    site.engine.play = play(call("get_time", "Rome"))

    answer = await whole(client, tool_choice="required")
    message = answer.choices[0].message
    raw = await site.post(
        CHAT, json.dumps({"model": "scripted", "messages": ASK, "tools": TOOLS, "stream": True}).encode()
    )

    assert message.content is None
    assert message.tool_calls is not None
    assert message.tool_calls[0].id.startswith("call_")
    assert answer.choices[0].finish_reason == "tool_calls"
    for event in raw.events()[:-1]:
        validator("CreateChatCompletionStreamResponse").validate(event)
    assert raw.events()[0]["choices"][0]["delta"] == {"role": "assistant", "content": None, "refusal": None}


async def test_arguments_are_streamed_while_they_are_written(site: Site, client: openai.AsyncOpenAI) -> None:
    site.engine.play = play(*call("get_time", "Rome"))

    found = await chunks(client)

    deltas = [chunk.choices[0].delta.tool_calls for chunk in found if chunk.choices]
    parts = [part for calls in deltas for part in calls or []]
    assert len(parts) == 1 + len('{"city": "Rome"}')


async def test_a_call_that_is_cut_is_told_of_and_has_the_reason_length(
    site: Site, client: openai.AsyncOpenAI
) -> None:
    site.engine.play = play(call("get_time", "Rome")[:60], reason=FinishReason.LENGTH)

    message = await both(site, client, tool_choice="required")

    assert message["finish_reason"] == "length"
    ((name, arguments),) = message["tool_calls"]
    assert name == "get_time"
    assert '{"city": "Rome"}'.startswith(arguments)


async def test_without_parallel_calls_the_answer_ends_with_the_first(
    site: Site, client: openai.AsyncOpenAI
) -> None:
    first = call("get_time", "Rome")
    site.engine.play = play(first, call("get_weather", "Oslo"))

    message = await both(site, client, parallel_tool_calls=False)

    assert message["tool_calls"] == [("get_time", '{"city": "Rome"}')]
    assert message["finish_reason"] == "tool_calls"
    # One byte is one token: they count up to the brace that completes the call.
    assert message["usage"].completion_tokens == len(first.removesuffix("\n</tool_call>"))
    assert all(handle.is_cancelled for handle in site.engine.handles)


async def test_tool_choice_none_calls_nothing(site: Site, client: openai.AsyncOpenAI) -> None:
    text = call("get_time", "Rome")
    site.engine.play = play(text)

    message = await both(site, client, tool_choice="none")

    assert message["content"] == text
    assert message["tool_calls"] == []
    assert message["finish_reason"] == "stop"


async def test_thinking_is_told_apart_and_counted(site: Site, client: openai.AsyncOpenAI) -> None:
    site.engine.play = play("<think>\nHm.\n</think>\n\n", "It is late.")

    message = await both(site, client, tools=openai.NOT_GIVEN)

    assert message["content"] == "It is late."
    assert message["reasoning_content"] == "Hm."
    # All that follows the opening mark, up to the character that completes the closing one.
    assert message["usage"].completion_tokens_details.reasoning_tokens == len(">\nHm.\n</think")
    (record, _) = site.records
    assert record.usage is not None
    assert record.usage.reasoning_tokens == len(">\nHm.\n</think")


async def test_thinking_that_the_prompt_began(site: Site, client: openai.AsyncOpenAI) -> None:
    site.engine.play = play("Hm.</think>", call("get_time", "Rome"))

    message = await both(site, client, extra_body={"enable_thinking": True})

    assert message["reasoning_content"] == "Hm."
    assert message["tool_calls"] == [("get_time", '{"city": "Rome"}')]


@pytest.mark.parametrize(
    ("how", "read"),
    [
        ("auto", ("Yes", "Hm")),
        ("deepseek", ("Yes", "Hm")),
        ("hidden", ("Yes", None)),
        ("none", ("<think>Hm</think>Yes", None)),
        ("deepseek-legacy", ("<think>Hm</think>Yes", "Hm")),
    ],
)
@pytest.mark.parametrize("has_tools", [False, True])
async def test_what_becomes_of_thinking(
    site: Site, client: openai.AsyncOpenAI, how: str, read: tuple[str, str | None], has_tools: bool
) -> None:
    site.engine.play = play("<think>Hm</think>Yes")

    tools = TOOLS if has_tools else openai.NOT_GIVEN
    message = await both(site, client, tools=tools, extra_body={"reasoning_format": how})

    assert (message["content"], message["reasoning_content"]) == read


async def test_stops_are_looked_for_in_content_alone(site: Site, client: openai.AsyncOpenAI) -> None:
    site.engine.play = play("<think>END</think>Now ", call("get_time", "END"), "and END of it")

    message = await both(site, client, stop=["END"])

    assert message["reasoning_content"] == "END"
    assert message["content"] == "Now and "
    assert message["tool_calls"] == [("get_time", '{"city": "END"}')]


async def test_tokens_of_calls_are_listed_too(site: Site, client: openai.AsyncOpenAI) -> None:
    text = "Hi " + call("get_time", "Rome")
    site.engine.play = play(text)

    answer = await whole(client, logprobs=True, top_logprobs=2)
    found = await chunks(client, logprobs=True, top_logprobs=2)

    listed = answer.choices[0].logprobs
    assert listed is not None
    assert listed.content is not None
    assert "".join([token.token for token in listed.content]) == text
    streamed = [
        token.token
        for chunk in found
        for choice in chunk.choices
        if choice.logprobs is not None
        for token in choice.logprobs.content or []
    ]
    assert "".join(streamed) == text


async def test_the_clients_own_stream_helper_ends_with_the_whole_message(
    site: Site, client: openai.AsyncOpenAI
) -> None:
    site.engine.play = play("Hi ", *call("get_time", "Rome"))

    tools = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
    async with client.chat.completions.stream(model="scripted", messages=ASK, tools=tools) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_completion()

    assert "tool_calls.function.arguments.done" in kinds
    message = final.choices[0].message
    assert message.content == "Hi"
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.parsed_arguments == {"city": "Rome"}


async def test_a_model_without_tools_in_its_template_calls_in_words(client: openai.AsyncOpenAI) -> None:
    site = Site()
    await started(site)
    site.engine.play = play('Let me look. TOOL_CALL {"name": "get_time", "arguments": {"city": "Rome"}}')
    transport = httpx.ASGITransport(app=site.app)
    async with openai.AsyncOpenAI(
        base_url="http://skippy/v1", api_key=KEY, http_client=httpx.AsyncClient(transport=transport)
    ) as other:
        message = await both(site, other)
    await site.runtime.stop()

    assert message["content"] == "Let me look."
    assert message["tool_calls"] == [("get_time", '{"city": "Rome"}')]
    assert message["finish_reason"] == "tool_calls"


async def test_calls_have_a_constraint_and_plain_chats_have_none(
    site: Site, client: openai.AsyncOpenAI
) -> None:
    site.engine.play = play("Hi")

    await whole(client, tools=openai.NOT_GIVEN)
    await whole(client, tool_choice="none")
    await whole(client)
    await whole(client, tool_choice="required")

    constrained = [handle.request.constraint is not None for handle in site.engine.handles]
    assert constrained == [False, False, True, True]


async def test_kept_text_has_the_calls(site: Site, client: openai.AsyncOpenAI) -> None:
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
    site.engine.play = play("Hi ", call("get_time", "Rome"))

    await both(site, client)

    kept = [text.answer for text in site.kept.texts]
    assert kept == ['Hi\nget_time({"city": "Rome"})'] * 2
