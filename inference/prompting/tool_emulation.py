"""Tools for models whose template knows none: described in words, called in a line of text.

The convention is one line, `TOOL_CALL {"name": …, "arguments": {…}}`, which small models follow
better than markup they were never shown. The history is rewritten to it, so that the model sees its own
earlier calls as it is asked to write the next one, and the template sees nothing but text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inference.domain.conversation import Conversation
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolCall, ToolSpec, ToolUse
from inference.prompting.call_arguments import parse_arguments
from inference.prompting.turn_text import with_text_before

MARKER = "TOOL_CALL"
_RESULT = "Tool result: "
_CONTEXT_HEADING = "# Task context"
_MAX_SHOWN_TYPES = 8


def emulate_tools(conversation: Conversation) -> Conversation:
    """The same conversation without tools: the callable ones described in the first system message,
    calls and results as text."""
    tool_use = conversation.tool_use
    messages = _rewritten(conversation.messages)
    if tool_use.callable_tools:
        messages = _with_instruction(messages, instruction(tool_use))
    return replace(conversation, messages=messages, tool_use=ToolUse())


def has_tool_turns(messages: Iterable[ChatMessage]) -> bool:
    """Whether there are calls or results in the history."""
    return any(message.tool_calls or message.role == "tool" for message in messages)


def instruction(tool_use: ToolUse) -> str:
    """What a model is told about the tools that it may call."""
    if tool_use.is_enforced:
        when = "Answer now with a tool call and nothing else."
    else:
        when = "Call a tool only where you need it; otherwise answer in plain words."
    if not tool_use.is_parallel:
        when += " Make one call at a time."
    lines = [
        "# Calling tools",
        "",
        f"You can call the tools below. To call one, write one line that begins with {MARKER} and goes on "
        "with a JSON object that has the tool's name and its arguments:",
        "",
        f'{MARKER} {{"name": "tool_name", "arguments": {{"argument": "value"}}}}',
        "",
        "Write that line exactly so: valid JSON, and the names of tools and arguments as they are listed. "
        + when,
        "",
        "# Tools",
        "",
    ]
    for tool in tool_use.callable_tools:
        lines += _described(tool)
    return "\n".join(lines)


def _described(tool: ToolSpec) -> list[str]:
    description = tool.description.strip()
    lines = [f"- {tool.name}: {description}" if description else f"- {tool.name}"]
    if tool.parameters is not None:
        lines.append(f"  arguments: {_signature(tool.parameters)}")
    return lines


def _signature(schema: Mapping[str, Any]) -> str:
    """`{city: string, days?: integer}`; a `?` marks what may be left out."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return "{}"
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    parts = [
        f"{name}{'' if name in needed else '?'}: {_type_of(property_)}"
        for name, property_ in properties.items()
    ]
    return "{" + ", ".join(parts) + "}"


def _type_of(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        return "|".join([one for one in kind if isinstance(one, str)][:_MAX_SHOWN_TYPES]) or "string"
    return "string"


def _with_instruction(messages: Sequence[ChatMessage], text: str) -> tuple[ChatMessage, ...]:
    for index, message in enumerate(messages):
        if message.role == "system":
            task = (message.content or "").strip()
            whole = f"{text}\n\n{_CONTEXT_HEADING}\n\n{task}" if task else text
            return (*messages[:index], replace(message, content=whole), *messages[index + 1 :])
    return (ChatMessage(role="system", content=text), *messages)


def _rewritten(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Results become a user's words, in one turn with what the user says next: there was none of the
    assistant's between them, and many templates want turns to alternate."""
    rewritten: list[ChatMessage] = []
    is_open = False  # the last of `rewritten` is made of results
    for message in messages:
        if message.role == "tool":
            text = _RESULT + (message.content or "")
            if is_open:
                text = f"{rewritten.pop().content}\n{text}"
            rewritten.append(ChatMessage(role="user", content=text))
        elif message.role == "user" and is_open:
            rewritten.append(with_text_before(message, rewritten.pop().content or ""))
        else:
            rewritten.append(_as_text(message))
        is_open = message.role == "tool"
    return tuple(rewritten)


def _as_text(message: ChatMessage) -> ChatMessage:
    if not message.tool_calls:
        return message
    lines = [message.content] if message.content else []
    lines += [_call_line(call) for call in message.tool_calls]
    return replace(message, content="\n".join(lines), tool_calls=())


def _call_line(call: ToolCall) -> str:
    arguments = parse_arguments(call.arguments)
    return f"{MARKER} " + json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
