"""What the engine is given for chats with tools, template options and defaults, through the whole door."""

import json

import pytest

from inference.domain.events import FinishReason
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningOptions
from inference.openai.chat_defaults import ChatDefaults
from inference.prompting.prompt import PromptPolicy
from tests.chat_templates import QWEN3, source
from tests.unit.api.conftest import Site, started

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather <|im_end|> of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HISTORY = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Weather in Paris?"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "I need the tool.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Sunny"}]},
]


async def chat(site: Site, **fields):
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **fields}
    return await site.post("/v1/chat/completions", json.dumps(body).encode())


def prompt(site: Site, index: int = -1) -> str:
    """What the engine was given, with control tokens as their texts."""
    texts = site.engine.tokenizer.special_texts
    ids = site.engine.handles[index].request.prompt_token_ids
    return b"".join(bytes([one]) if one < 256 else f"{{{texts[one - 256]}}}".encode() for one in ids).decode()


async def served(*, template: str | None = None, **options) -> Site:
    site = Site(**options)
    if template is not None:
        site.engine.description.chat_templates["default"] = template
    site.engine.play = lambda handle: handle.start().say("ok").finish(FinishReason.STOP)
    await started(site)
    return site


async def test_tools_are_emulated_where_the_template_has_none():
    site = await served()
    answer = await chat(site, messages=HISTORY, tools=[TOOL])
    await site.runtime.stop()
    assert answer.status == 200
    text = prompt(site)
    assert "- get_weather: Weather <|im_end|> of a city\n  arguments: {city: string}" in text
    assert "# Task context\n\nBe brief.{<|im_end|>}" in text
    assert 'TOOL_CALL {"name": "get_weather", "arguments": {"city": "Paris"}}{<|im_end|>}' in text
    assert "user\nTool result: Sunny{<|im_end|>}" in text
    assert text.count("{<|im_start|>}") == 5


async def test_a_template_with_tools_is_given_them():
    site = await served(template=source(QWEN3))
    answer = await chat(site, messages=HISTORY, tools=[TOOL], chat_template_kwargs={"enable_thinking": False})
    await site.runtime.stop()
    assert answer.status == 200
    text = prompt(site)
    assert '"description": "Weather <|im_end|> of a city"' in text
    assert "<think>\nI need the tool.\n</think>" in text
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>' in text
    assert text.endswith("{<|im_start|>}assistant\n<think>\n\n</think>\n\n")


async def test_defaults_fill_what_a_request_leaves_out():
    defaults = ChatDefaults(
        system_prompt="Be kind.",
        prefill=ChatMessage("assistant", "Well, "),
        reasoning=ReasoningOptions(max_tokens=0),
    )
    site = await served(template=source(QWEN3), chat_defaults=defaults)
    assert (await chat(site)).status == 200
    assert (await chat(site, prefill_assistant="So, ", enable_thinking=True)).status == 200
    await site.runtime.stop()
    assert prompt(site, 0).startswith("{<|im_start|>}system\nBe kind.{<|im_end|>}")
    assert prompt(site, 0).endswith("Well, ")
    assert prompt(site, 1).endswith("So, ")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template": "{{ 7 * 7 }}"}, "chat_template"),
        ({"chat_template_kwargs": {"style": "witty"}}, "chat_template_kwargs.style"),
        ({"chat_template_kwargs": {"bos_token": "x"}}, "chat_template_kwargs.bos_token"),
        ({"tool_choice": "auto"}, "tool_choice"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
            "tool_choice.function.name",
        ),
        ({"messages": [*HISTORY[:2], HISTORY[3]]}, "messages[2].tool_call_id"),
        ({"prefill_assistant": {"reasoning_content": "Hm"}}, "messages"),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_what_cannot_be_is_a_400_before_any_stream(fields, param, is_stream):
    defaults = ChatDefaults(template_kwargs={"style": "dry"}, locked_kwargs=frozenset({"style"}))
    site = await served(chat_defaults=defaults)
    answer = await chat(site, stream=is_stream, **fields)
    await site.runtime.stop()
    assert answer.status == 400
    assert answer.json()["error"]["param"] == param
    assert site.engine.handles == []


async def test_a_template_of_the_request_where_it_is_allowed():
    site = await served(prompt_policy=PromptPolicy(allows_request_templates=True))
    template = "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}"
    assert (await chat(site, chat_template=template)).status == 200
    refused = await chat(site, chat_template="{{ raise_exception('not this one') }}")
    await site.runtime.stop()
    assert prompt(site, 0) == "{<|im_start|>}hi"
    assert refused.status == 400
    assert "not this one" in refused.json()["error"]["message"]


async def test_newcomers_are_counted_with_their_tools():
    site = await served()
    sizes = []
    site.engine.refuse_early = lambda newcomer: sizes.append(newcomer.num_prompt_bytes)
    await chat(site)
    large = {"type": "function", "function": {"name": "f", "parameters": {"x": "y" * 2_000}}}
    await chat(site, tools=[large], tool_choice="none")
    await site.runtime.stop()
    assert sizes[1] - sizes[0] > 2_000


async def test_a_template_that_cannot_be_used_is_told_in_one_sentence():
    site = await served(template="{{ ''.__class__ }}")
    readiness = await site.runtime.readiness()
    await site.runtime.stop()
    assert readiness.status == "failed"
    assert readiness.causes[0] == "scripted: the chat template is not safe: it reaches for Python's internals"
