"""Chat templates of real models, and small conversations to render with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from inference.domain.conversation import Conversation
from inference.domain.messages import ChatMessage
from inference.domain.model import ModelDescription
from inference.domain.tokenizer import Tokenizer
from inference.domain.tools import ToolCall, ToolSpec, ToolUse
from inference.prompting.prompt import PromptBuilder, PromptPolicy

QWEN3 = "Qwen-Qwen3-0.6B"
QWEN35 = "Qwen3.5-4B"
NEMO = "mistralai-Mistral-Nemo-Instruct-2407"
LLAMA31 = "meta-llama-Llama-3.1-8B-Instruct"
GPT_OSS = "openai-gpt-oss-120b"
DEEPSEEK_R1 = "llama-cpp-deepseek-r1"
HERMES = "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"
GEMMA2 = "google-gemma-2-2b-it"
LFM2 = "LFM2-8B-A1B"
GRANITE33 = "ibm-granite-granite-3.3-2B-Instruct"
ALL = (QWEN3, QWEN35, NEMO, LLAMA31, GPT_OSS, DEEPSEEK_R1, HERMES, GEMMA2, LFM2, GRANITE33)

WEATHER = ToolSpec(
    "get_weather",
    "Weather of a city",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name"},
            "days": {"type": "integer", "description": "How many"},
        },
        "required": ["city"],
    },
)
CLOCK = ToolSpec("now")
TOOLS = ToolUse((WEATHER, CLOCK))

SYSTEM = ChatMessage("system", "Be brief.")
HELLO = ChatMessage("user", "Hello")
CALL = ToolCall("call_one", "get_weather", '{"city":"Paris"}')
OTHER_CALL = ToolCall("call_two", "get_weather", '{"city":"Rome","days":2}')
RESULT = ChatMessage("tool", "Sunny", tool_call_id="call_one")
OTHER_RESULT = ChatMessage("tool", "Rainy", tool_call_id="call_two")


def source(name: str) -> str:
    """The template of this name."""
    return (Path(__file__).parent / f"{name}.jinja").read_text()


def calls(*tool_calls: ToolCall, content: str | None = None, reasoning: str | None = None) -> ChatMessage:
    """An assistant's turn that calls."""
    return ChatMessage("assistant", content, tool_calls=tool_calls, reasoning=reasoning)


def says(*messages: ChatMessage) -> Conversation:
    """A conversation of these turns, without anything else."""
    return Conversation(messages=messages)


def builder(
    tokenizer: Tokenizer,
    templates: str | Mapping[str, str],
    *,
    max_request_tokens: int = 1_000_000,
    bos_text: str = "",
    policy: PromptPolicy | None = None,
) -> PromptBuilder:
    """Prompts for a made-up model with this template, or these."""
    description = ModelDescription(
        id="m",
        created=0,
        trained_context=max_request_tokens,
        num_cells=max_request_tokens,
        max_request_tokens=max_request_tokens,
        num_vocabulary=tokenizer.num_tokens,
        chat_templates={"default": templates} if isinstance(templates, str) else templates,
        bos_text=bos_text,
    )
    return PromptBuilder(tokenizer, description, policy=policy, now=lambda: datetime(2026, 3, 9, tzinfo=UTC))
