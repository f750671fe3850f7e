"""The bodies of POST /v1/messages and /v1/messages/count_tokens, as the requests that generating knows.

Ranges are Anthropic's (temperature up to 1). What is known there and not served here is refused by name
where its loss would change the answer; caching marks change nothing, since prompts that begin alike share
what was computed for them anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference.anthropic.errors import THREAD_UNSUPPORTED
from inference.anthropic.message_blocks import read_messages, read_system
from inference.anthropic.tools import read_tool_use
from inference.domain.constraint import JsonSchema
from inference.domain.conversation import Conversation, TemplateOptions
from inference.domain.errors import UnsupportedParameter
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.openai.adapter_fields import read_adapters
from inference.openai.fields import Fields
from inference.openai.hook_fields import read_hooks_opt_in
from inference.openai.json_body import parse_object
from inference.openai.parameters import MAX_LABEL_CHARS, Refusal, check_refused
from inference.openai.protocol import MAX_INT32, ChatRequest
from inference.openai.sampling_fields import read_sampling
from inference.openai.speculation_fields import read_speculation
from inference.openai.validation import MAX_STOP_CHARS, MIN_TIMEOUT_S, check_ignored, read_model

MAX_STOP_SEQUENCES = 16
SERVICE_TIERS = ("auto", "standard_only")
EFFORTS = ("low", "medium", "high", "xhigh", "max")

# Where and how fast Anthropic computes, and what it tells of its cache: nothing of it is in an answer's text.
_HARMLESS = ("cache_control", "diagnostics", "inference_geo", "speed")
_EMPTY = Refusal(lambda value: value in ([], {}))
_REFUSALS = {
    "container": _EMPTY,
    "mcp_servers": _EMPTY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRequest:
    """POST /v1/messages/count_tokens: how many tokens a prompt has."""

    model: str
    conversation: Conversation
    ignored_parameters: tuple[str, ...] = ()


def parse_messages_request(body: bytes, *, strict_fields: bool) -> ChatRequest:
    """Read the body of POST /v1/messages. Raises InvalidRequest or UnsupportedParameter.

    With `strict_fields`, a field that nobody defines is an error too, and not just listed.
    """
    fields = Fields(parse_object(body))
    model = read_model(fields)
    max_tokens = fields.integer("max_tokens", 1, MAX_INT32)
    if max_tokens is None:
        raise fields.missing("max_tokens")
    conversation = _conversation(fields, max_tokens=max_tokens)
    schema, schema_param = _output_schema(fields)
    fields.number("temperature", 0, 1)
    fields.choice("service_tier", SERVICE_TIERS)
    shared: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "sampling": read_sampling(fields),
        "stop": _stop_sequences(fields),
        "timeout_s": fields.number("timeout_s", MIN_TIMEOUT_S, MAX_INT32),
        "is_stream": fields.boolean("stream") or False,
        "user": _user(fields),
        "adapters": read_adapters(fields),
        "constraint": schema,
        "constraint_param": schema_param,
        "speculation": read_speculation(fields),
        "opts_in_hooks": read_hooks_opt_in(fields),
        "field_names": frozenset(fields.names()),
    }
    return ChatRequest(
        messages=conversation.messages,
        tool_use=conversation.tool_use,
        template=conversation.template,
        reasoning=conversation.reasoning,
        ignored_parameters=check_ignored(fields.unknown(), strict_fields=strict_fields),
        **shared,
    )


def parse_count_request(body: bytes, *, strict_fields: bool) -> CountRequest:
    """Read the body of POST /v1/messages/count_tokens; errors as above."""
    fields = Fields(parse_object(body))
    model = read_model(fields)
    conversation = _conversation(fields, max_tokens=None)
    _output_schema(fields)
    read_hooks_opt_in(fields)  # bodies are counted as they will be sent
    return CountRequest(
        model=model,
        conversation=conversation,
        ignored_parameters=check_ignored(fields.unknown(), strict_fields=strict_fields),
    )


def _conversation(fields: Fields, *, max_tokens: int | None) -> Conversation:
    """What the chat template is given. An assistant's last turn is continued."""
    messages = read_system(fields) + read_messages(fields)
    for name in _HARMLESS:
        fields.take(name)
    check_refused(fields, _REFUSALS)
    if fields.take("thread") is not None:
        # Clients' tool runners ask for one first, and send the whole conversation once they hear this.
        raise UnsupportedParameter(
            "Conversations are not held here: send all messages, without 'thread'.",
            param="thread",
            code=THREAD_UNSUPPORTED,
        )
    is_continued = messages[-1].role == "assistant"
    return Conversation(
        messages=messages,
        tool_use=read_tool_use(fields),
        template=TemplateOptions(is_continued=is_continued, has_generation_prompt=not is_continued),
        reasoning=_reasoning(fields, max_tokens),
    )


def _reasoning(fields: Fields, max_tokens: int | None) -> ReasoningOptions:
    """`thinking`, and the effort of `output_config`. Without either it is the model's own affair."""
    effort = _effort(fields)
    given = fields.mapping("thinking")
    if given is None:
        return ReasoningOptions(effort=effort)
    thinking = Fields(given, "thinking.")
    kind = thinking.choice("type", ("enabled", "disabled", "adaptive"))
    if kind is None:
        raise thinking.missing("type")
    if kind == "disabled":
        return ReasoningOptions(is_enabled=False)
    budget = thinking.integer("budget_tokens", 1, MAX_INT32)
    if kind == "enabled":
        if budget is None:
            raise thinking.missing("budget_tokens")
        if max_tokens is not None and budget >= max_tokens:
            raise thinking.fail("budget_tokens", "it must be less than 'max_tokens'")
    is_hidden = thinking.choice("display", ("summarized", "omitted")) == "omitted"
    return ReasoningOptions(
        format=ReasoningFormat.HIDDEN if is_hidden else None,
        is_enabled=True,
        effort=effort,
        max_tokens=budget,
    )


def _effort(fields: Fields) -> str | None:
    given = fields.mapping("output_config")
    if given is None:
        return None
    return Fields(given, "output_config.").choice("effort", EFFORTS)


def _output_schema(fields: Fields) -> tuple[JsonSchema | None, str]:
    """The schema that the answer has to fit, and the field that has it: `output_config.format`, or
    `output_format`, which was its name before."""
    config = Fields(fields.mapping("output_config") or {}, "output_config.")
    for owner, name in ((config, "format"), (fields, "output_format")):
        given = owner.mapping(name)
        if given is None:
            continue
        format = Fields(given, f"{owner.param(name)}.")
        if format.choice("type", ("json_schema",)) is None:
            raise format.missing("type")
        schema = format.mapping("schema")
        if schema is None:
            raise format.missing("schema")
        return JsonSchema(schema), format.param("schema")
    return None, ""


def _stop_sequences(fields: Fields) -> tuple[str, ...] | None:
    given = fields.array("stop_sequences")
    if given is None:
        return None
    if len(given) > MAX_STOP_SEQUENCES:
        raise fields.fail("stop_sequences", f"it may hold at most {MAX_STOP_SEQUENCES} strings")
    for stop in given:
        if not isinstance(stop, str) or not 1 <= len(stop) <= MAX_STOP_CHARS:
            raise fields.fail(
                "stop_sequences", f"it must hold strings of 1 to {MAX_STOP_CHARS} characters only"
            )
    return tuple(dict.fromkeys(stop for stop in given if isinstance(stop, str)))


def _user(fields: Fields) -> str | None:
    """`metadata.user_id`; Anthropic has nothing else in there."""
    given = fields.mapping("metadata")
    if given is None:
        return None
    return Fields(given, "metadata.").string("user_id", max_chars=MAX_LABEL_CHARS, is_label=True)
