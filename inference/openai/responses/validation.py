"""The body of POST /v1/responses, as the chat that it is.

What OpenAI runs on its own servers (background, conversations, prompts, tools of its own) is refused by
name, and so is dropping the middle of a conversation that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inference.domain.conversation import TemplateOptions
from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolSpec
from inference.openai.fields import Fields
from inference.openai.json_body import parse_object
from inference.openai.parameters import RESPONSE_REFUSALS, VERBOSITIES, Refusal, check_refused
from inference.openai.protocol import MAX_INT32
from inference.openai.reasoning_fields import read_reasoning
from inference.openai.responses.items import ItemReader, Items, input_items
from inference.openai.responses.protocol import ResponseRequest
from inference.openai.structured_output import read_text_format
from inference.openai.template_fields import read_template_kwargs
from inference.openai.tool_fields import read_tool_use
from inference.openai.validation import MAX_CHAT_LOGPROBS, output_members, read_model, read_output

MAX_RESPONSE_ID_CHARS = 64
LOGPROBS = "message.output_text.logprobs"
# What may be asked for in `include`: the second is about thinking that is sealed, and ours is not.
INCLUDES = (LOGPROBS, "reasoning.encrypted_content")
# OpenAI's names for one number; the first that is given counts.
_MAX_TOKENS = ("max_output_tokens", "max_completion_tokens", "max_tokens")

_NEVER = Refusal(lambda value: False)
_REFUSALS: Mapping[str, Refusal] = {
    **RESPONSE_REFUSALS,
    "background": Refusal(lambda value: value is False),
    "conversation": _NEVER,
    "context_management": _NEVER,
    "prompt": _NEVER,
    "truncation": Refusal(lambda value: value == "disabled"),
    "messages": Refusal(lambda value: False, "Use 'input'."),
    "response_format": Refusal(lambda value: False, "Use 'text.format'."),
}


def parse_response_request(
    body: bytes, *, strict_fields: bool, earlier: Items | None = None
) -> ResponseRequest:
    """Raises InvalidRequest or UnsupportedParameter.

    `earlier` are the items before this one's, where it names a previous response. While they are not
    known, calls that this one answers are taken to be in there.
    """
    fields = Fields(parse_object(body))
    ignored: list[str] = []
    model = read_model(fields)
    previous_id = fields.string("previous_response_id", max_chars=MAX_RESPONSE_ID_CHARS, is_label=True)
    instructions = fields.string("instructions")
    messages = _messages(
        fields, instructions, earlier or (), is_continuation=previous_id is not None and earlier is None
    )
    check_refused(fields, _REFUSALS)
    tool_use = read_tool_use(fields, ignored)
    kwargs = read_template_kwargs(fields)
    reasoning = read_reasoning(fields, kwargs, ignored)
    text = Fields(fields.mapping("text") or {}, "text.")
    output_format = read_text_format(text)
    verbosity = text.choice("verbosity", VERBOSITIES)
    max_tokens = [fields.integer(name, 1, MAX_INT32) for name in _MAX_TOKENS]
    is_stored = fields.boolean("store")
    fields.integer("max_tool_calls", 1, MAX_INT32)  # of tools that OpenAI runs; there are none
    num_top_logprobs = _logprobs(fields)
    given_choice = fields.take("tool_choice")
    shared = read_output(
        fields,
        model=model,
        max_tokens=next((value for value in max_tokens if value is not None), None),
        num_top_logprobs=num_top_logprobs,
        ignored=ignored,
        strict_fields=strict_fields,
    )
    if output_format is not None:
        if shared.constraint is not None:
            param = shared.constraint_param
            raise InvalidRequest(
                f"Invalid '{param}': it cannot be used together with 'text.format'.", param=param
            )
        shared = replace(shared, constraint=output_format.spec, constraint_param=output_format.param)
    if text.take("format") is not None:
        shared = replace(shared, says_form=True)
    echo = {
        "tools": [_tool_object(tool) for tool in tool_use.tools],
        "tool_choice": _choice_object(given_choice),
        "parallel_tool_calls": fields.boolean("parallel_tool_calls") is not False,
        "reasoning": {"effort": reasoning.effort, "summary": None},
        "text": {"format": text.mapping("format") or {"type": "text"}, "verbosity": verbosity or "medium"},
        "service_tier": "default",
        "safety_identifier": fields.take("safety_identifier"),
        "top_logprobs": num_top_logprobs or 0,
    }
    return ResponseRequest(
        messages=messages,
        tool_use=tool_use,
        template=TemplateOptions(kwargs=kwargs),
        reasoning=reasoning,
        instructions=instructions,
        previous_response_id=previous_id,
        is_stored=is_stored,
        echo=echo,
        **output_members(shared),
    )


def _messages(
    fields: Fields, instructions: str | None, earlier: Items, *, is_continuation: bool
) -> tuple[ChatMessage, ...]:
    """Instructions first: those of earlier responses are not taken over."""
    value = fields.take("input")
    if value is None:
        raise fields.missing("input")
    items = input_items(value)
    if items is None:
        raise fields.wrong_kind("input", "a string or an array of items", value)
    if not items:
        raise fields.fail("input", "it must not be empty")
    reader = ItemReader(may_be_continued=is_continuation)
    reader.read(earlier, path="previous_response")
    reader.read(items)
    turns = reader.turns()
    if not any((turn.content or "").strip() or turn.tool_calls or turn.role == "tool" for turn in turns):
        raise fields.fail("input", "at least one item must have text that is not blank")
    return (*([ChatMessage("system", instructions)] if instructions else []), *turns)


def _logprobs(fields: Fields) -> int | None:
    """How many alternatives for each token; None where logprobs are not included."""
    num_top = fields.integer("top_logprobs", 0, MAX_CHAT_LOGPROBS)
    given = fields.array("include") or []
    for value in given:
        if value not in INCLUDES:
            shown = "".join(c if c.isalnum() or c in "_." else "?" for c in str(value)[:64])
            raise UnsupportedParameter(f"'include' does not support '{shown}'.", param="include")
    if LOGPROBS in given:
        return num_top or 0
    if num_top:
        raise InvalidRequest(
            f"Invalid 'top_logprobs': it is only allowed when 'include' has '{LOGPROBS}'.",
            param="top_logprobs",
        )
    return None


def _tool_object(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or None,
        "parameters": None if tool.parameters is None else dict(tool.parameters),
        "strict": tool.is_strict,
    }


def _choice_object(choice: object) -> object:
    """As it was sent, which `read_tool_use` has checked; a nested function is written flat."""
    if isinstance(choice, dict):
        function = choice.get("function")
        return {"type": "function", **function} if isinstance(function, dict) else choice
    return choice or "auto"
