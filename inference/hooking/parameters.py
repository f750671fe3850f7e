"""The numbers, words and flags of a request that policies see, and those that they may set.

What a policy sets is read as if the client had sent it, so that both are held to the same ranges; but what is
wrong then is the policy's fault, and no 400. Where what it sets cannot be together with what the client
sent (`temperature` 0 and mirostat), the policy's makes the client's moot. `max_tokens` is the answer's
limit on every wire, whatever its own name for it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from hooks.contracts.view import ParameterValue
from inference.domain.errors import InvalidRequest
from inference.domain.reasoning import EFFORTS
from inference.openai.fields import Fields
from inference.openai.output_defaults import filled_sampling
from inference.openai.parameters import MAX_CHOICES
from inference.openai.protocol import (
    MAX_INT32,
    RANGES,
    ChatRequest,
    CompletionRequest,
    OutputRequest,
    SamplingRequest,
)
from inference.openai.sampling_fields import read_sampling
from inference.openai.validation import MAX_CHAT_LOGPROBS

R = TypeVar("R", bound=OutputRequest)

MESSAGES = "messages"
MAX_MESSAGES_TEMPERATURE = 1.0  # Anthropic's


class ParameterRefused(ValueError):
    """A policy set a parameter to what no client could send, or one that cannot be set."""


def request_parameters(request: OutputRequest) -> dict[str, ParameterValue]:
    """Those that the client sent, by the names that the wires have in common."""
    found: dict[str, ParameterValue] = {**request.sampling.said_numbers}
    said: dict[str, ParameterValue] = {
        "seed": request.sampling.seed,
        "max_tokens": request.max_tokens,
        "min_tokens": request.min_tokens or None,
        "n": request.num_choices if request.num_choices > 1 or "n" in request.field_names else None,
        "stream": True if request.is_stream else None,
        "ignore_eos": request.ignore_eos,
        "timeout_s": request.timeout_s,
        "top_logprobs": request.num_top_logprobs,
        "prompt_cache_key": request.prompt_cache_key,
        "prompt_cache_retention": request.prompt_cache_retention,
    }
    if isinstance(request, ChatRequest):
        thinking = request.reasoning
        said |= {
            "reasoning_effort": thinking.effort,
            "enable_thinking": thinking.is_enabled,
            "thinking_budget": thinking.max_tokens,
            "tool_choice": request.tool_use.mode.value if request.tool_use.tools else None,
            "parallel_tool_calls": False if not request.tool_use.is_parallel else None,
        }
    if isinstance(request, CompletionRequest):
        said |= {"best_of": request.best_of if request.best_of > request.num_choices else None}
        said |= {"echo": True if request.is_echo else None}
    return found | {name: value for name, value in said.items() if value is not None}


def with_parameters(
    request: R,
    endpoint: str,
    before: Mapping[str, ParameterValue],
    after: Mapping[str, ParameterValue],
) -> R:
    """The request with what differs between the two. Raises ParameterRefused."""
    given: dict[str, object] = {
        name: _plain(value)
        for name, value in after.items()
        if value is not None and not (name in before and before[name] == value)
    }
    gone = {name for name in before if after.get(name) is None}
    if not given and not gone:
        return request
    fields = Fields(given)
    try:
        return _with_fields(request, endpoint, fields, gone)
    except InvalidRequest as error:
        raise ParameterRefused(error.message) from None


def parameter_fault(name: str, value: ParameterValue) -> str:
    """Why no policy can set this, in a sentence; "" where it can."""
    request = ChatRequest(
        model="",
        sampling=SamplingRequest(),
        messages=(),
        num_choices=MAX_CHOICES,
        num_top_logprobs=MAX_CHAT_LOGPROBS,
    )
    try:
        with_parameters(request, "", {}, {name: value})
    except ParameterRefused as fault:
        return str(fault)
    return ""


def _with_fields(request: R, endpoint: str, fields: Fields, gone: set[str]) -> R:
    own = replace(request.sampling, **{name: None for name in gone if name in RANGES or name == "seed"})
    if endpoint == MESSAGES:
        fields.number("temperature", 0, MAX_MESSAGES_TEMPERATURE)
    changes: dict[str, Any] = {"sampling": filled_sampling(read_sampling(fields), own)}
    changes |= _limit_changes(request, fields, gone) | _number_changes(request, fields, gone)
    ignore_eos = fields.boolean("ignore_eos")
    if ignore_eos is not None or "ignore_eos" in gone:
        changes["ignore_eos"] = ignore_eos
    if isinstance(request, ChatRequest):
        changes |= _chat_changes(request, fields, gone)
    for name in fields.unknown():
        raise fields.fail(name, "a policy cannot set it")
    return replace(request, **changes)


def _limit_changes(request: OutputRequest, fields: Fields, gone: set[str]) -> dict[str, Any]:
    """`min_tokens` gives way to `max_tokens`, which no client could have sent below it."""
    least = 0 if isinstance(request, CompletionRequest) and request.is_echo else 1
    max_tokens = fields.integer("max_tokens", least, MAX_INT32)
    if max_tokens is None and "max_tokens" not in gone:
        max_tokens = request.max_tokens
    min_tokens = fields.integer("min_tokens", 0, MAX_INT32)
    if min_tokens is None:
        min_tokens = 0 if "min_tokens" in gone else request.min_tokens
    if max_tokens is not None:
        min_tokens = min(min_tokens, max_tokens)
    return {"max_tokens": max_tokens, "min_tokens": min_tokens}


def _number_changes(request: OutputRequest, fields: Fields, gone: set[str]) -> dict[str, Any]:
    """How many answers and alternatives: a policy may take some away, and adds none."""
    num_choices = fields.integer("n", 1, request.num_choices)
    if num_choices is None:
        num_choices = 1 if "n" in gone else request.num_choices
    num_top = fields.integer("top_logprobs", 0, request.num_top_logprobs or 0)
    if num_top is None:
        num_top = None if "top_logprobs" in gone else request.num_top_logprobs
    elif request.num_top_logprobs is None:
        num_top = None
    changes: dict[str, Any] = {"num_choices": num_choices, "num_top_logprobs": num_top}
    if isinstance(request, CompletionRequest):
        best_of = fields.integer("best_of", num_choices, max(request.best_of, num_choices))
        if best_of is None:
            is_own = request.best_of > request.num_choices and "best_of" not in gone
            best_of = request.best_of if is_own else num_choices
        changes["best_of"] = best_of
    return changes


def _chat_changes(request: ChatRequest, fields: Fields, gone: set[str]) -> dict[str, Any]:
    effort = fields.choice("reasoning_effort", EFFORTS)
    is_enabled = fields.boolean("enable_thinking")
    is_parallel = fields.boolean("parallel_tool_calls")
    thinking, tool_use = request.reasoning, request.tool_use
    if effort is not None or "reasoning_effort" in gone:
        thinking = replace(thinking, effort=effort)
    if is_enabled is not None or "enable_thinking" in gone:
        thinking = replace(thinking, is_enabled=is_enabled)
    if is_parallel is not None or "parallel_tool_calls" in gone:
        tool_use = replace(tool_use, is_parallel=is_parallel is not False)
    return {"reasoning": thinking, "tool_use": tool_use}


def _plain(value: ParameterValue) -> ParameterValue:
    """A bound that a policy has as 100.0 is the whole number that the field wants."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
