"""A conversation as one template can take it: who may speak where, and in which words it is told so.

What a template would refuse or drop is put where it is read: later system turns into the next user turn,
several calls of one turn into several turns, call ids into nine characters. All text of the caller's
is guarded on the way (control_text.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolCall, ToolMode, ToolSpec, ToolUse
from inference.prompting.call_arguments import arguments_object
from inference.prompting.control_text import PromptMarks
from inference.prompting.template_traits import TemplateTraits, Turn
from inference.prompting.thinking_history import split_thinking
from inference.prompting.turn_text import BETWEEN, with_text_before

_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


def arranged(
    messages: Sequence[ChatMessage], traits: TemplateTraits, *, is_continued: bool
) -> tuple[ChatMessage, ...]:
    """The turns in an order, and of roles, that the template takes."""
    last = len(messages) - 1
    turns = [
        split_thinking(
            message,
            traits.thinking_markers,
            is_continued=is_continued and index == last and traits.reasoning_key is not None,
        )
        for index, message in enumerate(messages)
    ]
    turns = _with_system_in_place(turns, traits)
    return tuple(turns if traits.has_parallel_calls else _with_single_calls(turns))


def with_one_system_role(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Templates know `system` only."""
    return tuple(
        replace(message, role="system") if message.role == "developer" else message for message in messages
    )


def _with_system_in_place(messages: Sequence[ChatMessage], traits: TemplateTraits) -> list[ChatMessage]:
    if traits.has_system_role and traits.has_late_system:
        return list(messages)
    turns: list[ChatMessage] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            text = message.content or ""
            if traits.has_system_role and not waiting and all(turn.role == "system" for turn in turns):
                turns = [with_text_before(message, turn.content or "") for turn in turns] or [message]
            elif text.strip():
                waiting.append(text)
            continue
        if waiting and message.role == "user":
            turns.append(with_text_before(message, BETWEEN.join(waiting)))
            waiting = []
        else:
            turns.append(message)
    if waiting:
        turns.append(ChatMessage(role="user", content=BETWEEN.join(waiting)))
    return turns


def _with_single_calls(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Call, result, call, result: for templates that write one call in a turn."""
    turns: list[ChatMessage] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if len(message.tool_calls) < 2:
            turns.append(message)
            continue
        results: list[ChatMessage] = []
        while index < len(messages) and messages[index].role == "tool":
            results.append(messages[index])
            index += 1
        for position, call in enumerate(message.tool_calls):
            is_first = position == 0
            turns.append(
                replace(
                    message,
                    content=message.content if is_first else None,
                    reasoning=message.reasoning if is_first else None,
                    tool_calls=(call,),
                )
            )
            turns += [result for result in results if result.tool_call_id == call.id]
        known = {call.id for call in message.tool_calls}
        turns += [result for result in results if result.tool_call_id not in known]
    return turns


class TurnWriter:
    """Writes the turns of one rendering as the template's dictionaries."""

    def __init__(self, traits: TemplateTraits, marks: PromptMarks) -> None:
        self._traits = traits
        self._marks = marks
        self._called: dict[str, str] = {}

    def turns(self, messages: Iterable[ChatMessage], *, has_reasoning: bool = True) -> list[Turn]:
        """One for each message, in order; without thinking where `has_reasoning` is False."""
        messages = tuple(messages)
        self._called.update({call.id: call.name for message in messages for call in message.tool_calls})
        key = self._traits.reasoning_key if has_reasoning else None
        return [self._turn(message, key) for message in messages]

    def _content(self, text: str) -> str | list[Turn]:
        return [{"type": "text", "text": text}] if self._traits.wants_typed_content else text

    def _turn(self, message: ChatMessage, reasoning_key: str | None) -> Turn:
        guard = self._marks.guard
        # No content is no text: a template would print None as a word.
        content = message.content or ""
        if message.tool_calls and not self._traits.has_calls_beside_text:
            content = ""  # of the two, the call is what the next turn is about
        text = guard(content)
        notation = self._traits.call_notation
        if message.tool_calls and notation is not None:
            text += notation.begin + guard(notation.body(message.tool_calls)) + notation.end
        turn: Turn = {"role": message.role, "content": self._content(text)}
        name = message.name
        if message.role == "tool" and message.tool_call_id is not None:
            turn["tool_call_id"] = guard(self._id(message.tool_call_id))
            name = name or self._called.get(message.tool_call_id)
        if name is not None:  # templates tell a missing name from an empty one
            turn["name"] = guard(name)
        if message.reasoning is not None and reasoning_key is not None:
            turn[reasoning_key] = guard(message.reasoning)
        if message.tool_calls and notation is None:
            turn["tool_calls"] = [self._call(call) for call in message.tool_calls]
        return turn

    def _call(self, call: ToolCall) -> Turn:
        arguments: Any = call.arguments
        if self._traits.wants_object_arguments:
            arguments = arguments_object(call.arguments)
        elif not call.arguments.strip():
            arguments = "{}"
        return {
            "id": self._marks.guard(self._id(call.id)),
            "type": "function",
            "function": {
                "name": self._marks.guard(call.name),
                "arguments": self._marks.guard_json(arguments),
            },
        }

    def _id(self, call_id: str) -> str:
        if not self._traits.wants_short_ids or _SHORT_ID.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[:9]

    def tools(self, tools: Iterable[ToolSpec]) -> list[Turn]:
        """In OpenAI's shape, whole: templates reach for every part of it."""
        return [
            {
                "type": "function",
                "function": {
                    "name": self._marks.guard(tool.name),
                    "description": self._marks.guard(tool.description),
                    "parameters": self._marks.guard_json(tool.parameters or _NO_ARGUMENTS),
                },
            }
            for tool in tools
        ]

    def tool_choice(self, tool_use: ToolUse) -> str | Turn:
        """In OpenAI's shape."""
        if tool_use.mode is ToolMode.NAMED and tool_use.name is not None:
            return {"type": "function", "function": {"name": self._marks.guard(tool_use.name)}}
        return tool_use.mode.value
