"""What models of a family write, and what it means: the form of a transcript, and words for many of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from inference.domain.message_deltas import AssistantMessage, MessageBuilder, MessageParser
from inference.domain.reasoning import ReasoningOptions
from inference.domain.tools import ToolMode, ToolSpec, ToolUse
from inference.parsing.formats.emulated import EMULATED
from inference.parsing.formats.message_format import MessageFormat
from inference.parsing.formats.registry import format_of


def _tool(name: str, properties: dict[str, Any], *required: str) -> ToolSpec:
    return ToolSpec(name, parameters={"type": "object", "properties": properties, "required": list(required)})


_INTEGER, _STRING = {"type": "integer"}, {"type": "string"}
TOOLS = (
    _tool("special_function", {"arg1": _INTEGER}, "arg1"),
    _tool("special_function_with_opt", {"arg1": _INTEGER, "arg2": _INTEGER}, "arg1"),
    _tool("get_time", {"city": _STRING}, "city"),
    _tool(
        "edit",
        {"filename": _STRING, "oldString": _STRING, "newString": _STRING, "all": {"type": "boolean"}},
        "filename",
    ),
    _tool("python", {"code": _STRING}, "code"),
    _tool("todo", {"items": {"type": "array", "items": {"type": "object"}}}, "items"),
    _tool("note", {"text": {"anyOf": [_STRING, {"type": "null"}]}, "level": {"type": ["integer", "string"]}}),
    ToolSpec("empty_args"),
)

# Enough of each family's chat template to know it by.
SOURCES = {
    "hermes": "<tool_call> <think></think>",
    "mistral-nemo": "[TOOL_CALLS]",
    "mistral-small-3.2": "[TOOL_CALLS] [CALL_ID] [ARGS]",
    "devstral": "[TOOL_CALLS] [ARGS]",
    "ministral-3": "[SYSTEM_PROMPT] [TOOL_CALLS] [ARGS] [THINK] [/THINK]",
    "llama-3": '<|start_header_id|> ipython "parameters"',
    "functionary-v3.1": "<function= </function>",
    "functionary-v3.2": ">>>all >>>${recipient}",
    "firefunction-v2": " functools[",
    "command-r7b": "<|START_ACTION|> <|START_RESPONSE|> Action:",
    "command-r-plus": "Action: ```json tool_name",
    "deepseek-v3.1": "<｜tool▁calls▁begin｜> <think> </think>",
    "deepseek-r1": "<｜tool▁calls▁begin｜> ```json <think> </think>",
    "deepseek-v3.2": "dsml_token DSML function_calls <think> </think>",
    "deepseek-v4": "dsml_token DSML tool_calls <think> </think>",
    "kimi-k2": "<|tool_calls_section_begin|> <|tool_call_begin|>",
    "kimi-k3": "<|open|> <|close|> <|end_of_msg|>",
    "minimax-m1": "<tool_calls>\n",
    "apriel": "<tool_calls>[",
    "apriel-thinker": "<tool_calls>[ Here are my reasoning steps: [BEGIN FINAL RESPONSE]",
    "minimax-m2": "<minimax:tool_call> <think> </think>",
    "nemotron-nano-v2": "<TOOLCALL> <think> </think>",
    "lfm2": "<|tool_list_start|> <|tool_list_end|> <think> </think>",
    "apertus": "<|tools_prefix|>",
    "harmony": "<|channel|>",
    "gemma-4": "'<|tool_call>call:'",
    "gigachat-3": "<|role_sep|> <|message_sep|>",
    "gigachat-3.1": "<|role_sep|> <|message_sep|> <|function_call|>",
    "granite-3.3": "<|tool_call|>",
    "seed-oss": "<seed:tool_call> <function= <parameter= <seed:think> </seed:think>",
    "qwen3-coder": "<tool_call> <function= <parameter= <think> </think>",
    "glm": "<tool_call> <arg_key> <think> </think>",
    "minicpm5": '<function name=" <param name=" <think> </think>',
    "plain": "<think> </think>",
}


@dataclass(frozen=True, slots=True)
class Golden:
    """`calls` are names, arguments (as JSON values, or as text where they are cut) and ids, "" for any."""

    family: str
    text: str
    content: str | None = None
    reasoning: str | None = None
    calls: tuple[tuple[str, Any, str], ...] = ()
    is_open: bool = False
    has_called: bool | None = None
    tools: ToolUse = field(default=ToolUse(TOOLS))
    options: ReasoningOptions = field(default=ReasoningOptions())

    @property
    def format(self) -> MessageFormat:
        return EMULATED if self.family == "emulated" else format_of(SOURCES[self.family])

    def parser(self) -> MessageParser:
        numbers: Iterator[int] = iter(range(1000))
        return self.format.parser(
            self.tools,
            self.options,
            is_thinking_open=self.is_open,
            new_call_id=lambda: f"new_{next(numbers)}",
        )

    def check(self, message: AssistantMessage, *, has_called: bool) -> None:
        assert message.content == self.content
        assert message.reasoning == self.reasoning
        assert [call.name for call in message.tool_calls] == [name for name, _, _ in self.calls]
        for call, (_, arguments, call_id) in zip(message.tool_calls, self.calls, strict=True):
            if isinstance(arguments, str):
                assert call.arguments == arguments
            else:
                assert json.loads(call.arguments) == arguments
            assert call.id == call_id or (not call_id and call.id.startswith("new_"))
        assert has_called is (bool(self.calls) if self.has_called is None else self.has_called)


def read(parser: MessageParser, *pieces: str) -> AssistantMessage:
    """What the pieces of an answer add up to."""
    builder = MessageBuilder()
    for piece in pieces:
        for delta in parser.feed(piece):
            builder.add(delta)
    for delta in parser.finish():
        builder.add(delta)
    return builder.message()


def calls_of(message: AssistantMessage) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


ONE = ("special_function", {"arg1": 1}, "")
TWO = ("special_function_with_opt", {"arg1": 1, "arg2": 2}, "")
HELLO = "Hello, world!\nWhat's up?"
THOUGHT = "I'm\nthinking"
ONE_CALL = ToolUse(TOOLS, is_parallel=False)
NO_CALLS = ToolUse(TOOLS, mode=ToolMode.NONE)
TIME = ("get_time", {"city": "Tokyo"}, "")
