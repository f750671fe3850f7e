"""Calls and thinking of real models through the whole service, read with OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletion

from inference.domain.clock import SystemClock
from inference.engine.client import Admission
from inference.engine.config import EngineConfig
from inference.engine.load_order import LoadOrder, ModelFiles
from inference.engine.local import LocalEngine, LocalEngineLoader
from tests.unit.api.conftest import KEY, SCRIPTED, Site
from tests.unit.api.test_tool_calls import TEMPLATE

THINKING = TEMPLATE.replace("{% if enable_thinking is defined and enable_thinking %}", "{% if true %}")
PARAMETERS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "null"}]},
        },
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
    "get_time": {"type": "object", "properties": {}, "additionalProperties": False},
}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}
    for name, parameters in PARAMETERS.items()
]
ASK: Any = [{"role": "user", "content": "What is the weather in Paris?"}]


class TemplateLoader(LocalEngineLoader):
    """Loads a model and gives it another chat template, where one is given."""

    def __init__(self, model_path: Path, template: str | None) -> None:
        super().__init__(clock=SystemClock())
        self._model_path = model_path
        self._template = template

    async def load(self, order: LoadOrder, admit: Callable[[int], Admission]) -> LocalEngine:
        config = EngineConfig(num_cells=4096, num_lanes=4)
        order = replace(order, files=ModelFiles(model=self._model_path), config=config)
        engine = await super().load(order, admit)
        if self._template is not None:
            engine.description = replace(engine.description, chat_templates={"default": self._template})
        return engine


@asynccontextmanager
async def serving(model_path: Path, template: str | None = None) -> AsyncIterator[openai.AsyncOpenAI]:
    site = Site(loader=TemplateLoader(model_path, template), models=(replace(SCRIPTED, id="model"),))
    await site.runtime.start()
    while site.runtime.state.name == "LOADING":
        await asyncio.sleep(0.02)
    transport = httpx.ASGITransport(app=site.app)
    try:
        async with openai.AsyncOpenAI(
            base_url="http://skippy/v1",
            api_key=KEY,
            max_retries=0,
            http_client=httpx.AsyncClient(transport=transport),
        ) as client:
            yield client
    finally:
        await site.runtime.stop()


async def asked(client: openai.AsyncOpenAI, *, is_stream: bool, **fields: Any) -> ChatCompletion:
    fields = {"model": "model", "messages": ASK, "tools": TOOLS, "max_tokens": 200, **fields}
    if not is_stream:
        answer = await client.chat.completions.create(**fields)
        assert isinstance(answer, ChatCompletion)
        return answer
    async with client.chat.completions.stream(**fields) as stream:
        return await stream.get_final_completion()


def check_calls(answer: ChatCompletion, *names: str) -> None:
    (choice,) = answer.choices
    calls = choice.message.tool_calls
    assert calls, choice
    assert choice.finish_reason == "tool_calls"
    assert not choice.message.content
    for call in calls:
        assert call.type == "function"
        assert call.function.name in names
        jsonschema.validate(json.loads(call.function.arguments), PARAMETERS[call.function.name])
    assert len({call.id for call in calls}) == len(calls)


# SmolLM2's own template knows no tools: there they are emulated.
@pytest.mark.parametrize("template", [None, TEMPLATE])
@pytest.mark.parametrize("is_tiny", [False, True])
async def test_enforced_calls_fit_their_schemas(
    model_path: Path, tiny_model_path: Path, template: str | None, is_tiny: bool
) -> None:
    async with serving(tiny_model_path if is_tiny else model_path, template) as client:
        for seed in range(3):
            is_stream = seed % 2 == 1
            answer = await asked(
                client, is_stream=is_stream, tool_choice="required", parallel_tool_calls=False, seed=seed
            )
            check_calls(answer, *PARAMETERS)
            named: Any = {"type": "function", "function": {"name": "get_weather"}}
            answer = await asked(
                client, is_stream=is_stream, tool_choice=named, parallel_tool_calls=False, seed=seed
            )
            check_calls(answer, "get_weather")


async def test_text_is_free_where_calls_need_not_be(model_path: Path) -> None:
    async with serving(model_path) as client:
        whole = await asked(client, is_stream=False, temperature=0, max_tokens=24)
        streamed = await asked(client, is_stream=True, temperature=0, max_tokens=24)
    assert whole.choices[0].message.content
    assert whole.choices[0].message.content == streamed.choices[0].message.content


@pytest.mark.parametrize("budget", [0, 6])
async def test_a_budget_ends_thinking_and_the_answer_follows(model_path: Path, budget: int) -> None:
    async with serving(model_path, THINKING) as client:
        answer = await asked(
            client,
            is_stream=False,
            tools=openai.NOT_GIVEN,
            max_tokens=60,
            # The model might have nothing to say behind its thoughts.
            extra_body={"thinking_budget": budget, "enable_thinking": True, "ignore_eos": True},
        )
    message = answer.choices[0].message
    assert message.content
    assert "</think>" not in message.content
    usage = answer.usage
    assert usage is not None
    assert usage.completion_tokens_details is not None
    num_thought = usage.completion_tokens_details.reasoning_tokens
    # "</think>" is several tokens of this vocabulary, and all but the last are still thinking.
    assert num_thought is not None
    assert budget <= num_thought <= budget + 8
    assert bool(getattr(message, "reasoning_content", None)) is (budget > 0)


async def test_a_call_comes_behind_thinking(model_path: Path) -> None:
    async with serving(model_path, THINKING) as client:
        answer = await asked(
            client,
            is_stream=False,
            tool_choice="required",
            parallel_tool_calls=False,
            extra_body={"thinking_budget": 8, "enable_thinking": True},
        )
    check_calls(answer, *PARAMETERS)
    assert getattr(answer.choices[0].message, "reasoning_content", None)
