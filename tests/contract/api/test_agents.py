"""Tool loops of others, unchanged, over real sockets: OpenAI's Agents SDK on both of its APIs, and the runner
of Anthropic's client.

The engine is scripted, so that the model does what a model should; all else is the service.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import anthropic
import openai
import pytest
import uvicorn
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)

from accounts.contracts import KeyLookup, KeyState
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started

CALL = 'I look. TOOL_CALL {"name": "weather", "arguments": {"city": "Rome"}}'
MODELS = [OpenAIResponsesModel, OpenAIChatCompletionsModel]


@dataclass
class Service:
    """The service behind a socket. `says` are the model's next answers."""

    site: Site
    client: openai.AsyncOpenAI
    says: list[str] = field(default_factory=list)

    def play(self, handle: ScriptedHandle) -> None:
        text = self.says.pop(0)
        handle.start().say(text[:12]).say(text[12:]).finish()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    set_tracing_disabled(True)
    site = Site()
    await started(site)
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(site.app, lifespan="off", log_level="error", ws="none"))
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        made = Service(site, client)
        site.engine.play = made.play
        yield made
    server.should_exit = True
    await serving
    await site.runtime.stop()


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def agent(service: Service, model: Any, choice: str | None = None) -> Agent[Any]:
    return Agent(
        name="helper",
        instructions="Help.",
        model=model(model="scripted", openai_client=service.client),
        tools=[weather],
        model_settings=ModelSettings(tool_choice=choice),
    )


@pytest.mark.parametrize("choice", [None, "required"])
@pytest.mark.parametrize("model", MODELS)
async def test_a_tool_is_called_and_its_result_used(service: Service, model: Any, choice: str | None) -> None:
    service.says = [CALL, "It rains."]
    result = await Runner.run(agent(service, model, choice), "Weather in Rome?")

    assert result.final_output == "It rains."
    kinds = [type(item).__name__ for item in result.new_items]
    assert kinds == ["MessageOutputItem", "ToolCallItem", "ToolCallOutputItem", "MessageOutputItem"]
    prompt = bytes(one for one in service.site.engine.handles[-1].request.prompt_token_ids if one < 256)
    assert b"Rain in Rome." in prompt


@pytest.mark.parametrize("model", MODELS)
async def test_the_same_in_streams(service: Service, model: Any) -> None:
    service.says = [CALL, "It rains."]
    result = Runner.run_streamed(agent(service, model), "Weather in Rome?")
    deltas = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]

    assert result.final_output == "It rains."
    assert "".join(deltas).replace(" ", "").startswith("Ilook.") and "".join(deltas).endswith("It rains.")


async def test_a_conversation_is_gone_on_from_by_its_last_response(service: Service) -> None:
    service.says = [CALL, "It rains.", "Bye."]
    helper = agent(service, OpenAIResponsesModel)
    first = await Runner.run(helper, "Weather in Rome?", auto_previous_response_id=True)
    again = await Runner.run(helper, "Thanks.", previous_response_id=first.last_response_id)

    assert again.final_output == "Bye."
    prompt = bytes(one for one in service.site.engine.handles[-1].request.prompt_token_ids if one < 256)
    for said in (b"Weather in Rome?", b"Rain in Rome.", b"It rains.", b"Thanks."):
        assert said in prompt
    assert [record.endpoint for record in service.site.records] == ["responses"] * 3


@anthropic.beta_async_tool
async def forecast(city: str) -> str:
    """The weather in a city."""
    return f"Sun in {city}."


@pytest.mark.parametrize("is_stream", [False, True])
async def test_anthropics_tool_runner(service: Service, is_stream: bool) -> None:
    service.says = [CALL.replace("weather", "forecast"), "It shines."]
    url = str(service.client.base_url).removesuffix("/v1/")
    async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="scripted",
            max_tokens=100,
            tools=[forecast],
            messages=[{"role": "user", "content": "Weather in Rome?"}],
            stream=is_stream,
        )
        final = await runner.until_done()

    assert [block.type for block in final.content] == ["text"]
    assert final.content[0].text == "It shines."
    prompt = bytes(one for one in service.site.engine.handles[-1].request.prompt_token_ids if one < 256)
    assert b"Sun in Rome." in prompt
    # It asks for a conversation that the server holds, hears that there is none, and goes on without.
    assert [record.status for record in service.site.records] == [400, 200, 200]
