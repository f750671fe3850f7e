"""From the bytes of a request to a value in which nothing is wrong, or the 400 that says what is.

Everything that can be known before the model is asked is decided here, so that no refusal has to
come inside a stream that began with a 200. Ranges are OpenAI's (temperature up to 2, penalties
within 2 of zero); those of parameters that OpenAI lacks are llama.cpp's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Any

from inference.domain.conversation import Conversation
from inference.domain.errors import InvalidRequest
from inference.domain.reasoning import EFFORTS
from inference.openai.adapter_fields import read_adapters
from inference.openai.fields import Fields, kind_of
from inference.openai.hook_fields import read_hooks_opt_in
from inference.openai.json_body import parse_object
from inference.openai.message_parts import parse_messages
from inference.openai.parameters import (
    CACHE_RETENTIONS,
    CHAT_REFUSALS,
    COMPLETION_REFUSALS,
    MAX_CHOICES,
    MAX_LABEL_CHARS,
    check_harmless,
    check_refused,
    read_metadata,
)
from inference.openai.prompts import parse_prompts
from inference.openai.protocol import (
    MAX_INT32,
    ChatRequest,
    CompletionRequest,
    OutputRequest,
)
from inference.openai.reasoning_fields import read_reasoning
from inference.openai.sampling_fields import read_sampling
from inference.openai.speculation_fields import read_speculation
from inference.openai.structured_output import FORMAT_FIELDS, read_output_format
from inference.openai.template_fields import read_template, read_template_kwargs
from inference.openai.tool_fields import read_tool_use

MAX_STOPS = 4
# Matching costs nothing by the stops' length, but preparing them does; nobody's stop is longer.
MAX_STOP_CHARS = 1024
MAX_MODEL_CHARS = 256
MAX_CHAT_LOGPROBS = 20  # both are OpenAI's
MAX_COMPLETION_LOGPROBS = 5
MIN_TIMEOUT_S = 0.001
MAX_IGNORED = 16
MAX_IGNORED_CHARS = 64

_NOT_FOR_HEADERS = re.compile(r"[^A-Za-z0-9_.\-\[\]]")


def parse_chat_request(body: bytes, *, strict_fields: bool) -> ChatRequest:
    """Read the body of POST /v1/chat/completions. Raises InvalidRequest or UnsupportedParameter.

    With `strict_fields`, a field that nobody defines is an error too, and not just listed.
    """
    fields = Fields(parse_object(body))
    ignored: list[str] = []
    model = read_model(fields)
    conversation = read_conversation(fields, ignored)
    max_tokens = fields.integer("max_tokens", 1, MAX_INT32)
    max_completion_tokens = fields.integer("max_completion_tokens", 1, MAX_INT32)
    check_refused(fields, CHAT_REFUSALS)
    num_choices = fields.integer("n", 1, MAX_CHOICES) or 1
    wants_raw_text = fields.boolean("skip_chat_parsing")
    shared = read_output(
        fields,
        model=model,
        max_tokens=max_tokens if max_completion_tokens is None else max_completion_tokens,
        num_top_logprobs=_chat_logprobs(fields),
        num_choices=num_choices,
        ignored=ignored,
        strict_fields=strict_fields,
    )
    return ChatRequest(
        messages=conversation.messages,
        tool_use=conversation.tool_use,
        template=conversation.template,
        reasoning=conversation.reasoning,
        wants_raw_text=wants_raw_text,
        **output_members(shared),
    )


def read_conversation(fields: Fields, ignored: list[str]) -> Conversation:
    """All that a chat's prompt is made of: messages, tools, template and thinking."""
    messages = parse_messages(fields, ignored)
    tool_use = read_tool_use(fields, ignored)
    kwargs = read_template_kwargs(fields)
    reasoning = read_reasoning(fields, kwargs, ignored)
    messages, template = read_template(fields, messages, kwargs)
    return Conversation(messages=messages, tool_use=tool_use, template=template, reasoning=reasoning)


def parse_completion_request(body: bytes, *, strict_fields: bool) -> CompletionRequest:
    """Read the body of POST /v1/completions; errors and `strict_fields` as for chat."""
    fields = Fields(parse_object(body))
    model = read_model(fields)
    prompts = parse_prompts(fields)
    num_choices = fields.integer("n", 1, MAX_CHOICES) or 1
    best_of = _best_of(fields, num_choices)
    suffix = fields.string("suffix") or None
    is_echo = fields.boolean("echo") or False
    if is_echo and suffix is not None:
        raise fields.fail("echo", "it cannot be used with 'suffix': the answer is to stand in between")
    # Nothing but the prompt and its scores: there is something to send, if it is to be sent.
    max_tokens = fields.integer("max_tokens", 0 if is_echo else 1, MAX_INT32)
    check_refused(fields, COMPLETION_REFUSALS)
    fields.choice("reasoning_effort", EFFORTS)  # both ask nothing of a completion
    fields.boolean("parallel_tool_calls")
    shared = read_output(
        fields,
        model=model,
        max_tokens=max_tokens,
        num_top_logprobs=fields.integer("logprobs", 0, MAX_COMPLETION_LOGPROBS),
        num_choices=num_choices,
        ignored=[],
        strict_fields=strict_fields,
    )
    return CompletionRequest(
        prompts=prompts, best_of=best_of, is_echo=is_echo, suffix=suffix, **output_members(shared)
    )


def read_model(fields: Fields) -> str:
    """The field `model`, which must be there."""
    model = fields.string("model", max_chars=MAX_MODEL_CHARS, is_label=True)
    if model is None:
        raise fields.missing("model")
    if not model.strip():
        raise fields.fail("model", "it must not be blank")
    return model


def read_output(
    fields: Fields,
    *,
    model: str,
    max_tokens: int | None,
    num_top_logprobs: int | None,
    ignored: list[str],
    strict_fields: bool,
    num_choices: int = 1,
) -> OutputRequest:
    """Read what both endpoints share; last, see what is left over."""
    is_stream = fields.boolean("stream") or False
    wants_usage = _wants_usage(fields, is_stream, ignored)
    check_harmless(fields)
    output_format = read_output_format(fields)
    request = OutputRequest(
        model=model,
        sampling=read_sampling(fields),
        stop=read_stop(fields),
        max_tokens=max_tokens,
        ignore_eos=fields.boolean("ignore_eos"),
        min_tokens=fields.integer("min_tokens", 0, MAX_INT32) or 0,
        timeout_s=fields.number("timeout_s", MIN_TIMEOUT_S, MAX_INT32),
        num_top_logprobs=num_top_logprobs,
        num_choices=num_choices,
        is_stream=is_stream,
        wants_usage=wants_usage,
        user=fields.string("user", max_chars=MAX_LABEL_CHARS, is_label=True),
        metadata=read_metadata(fields),
        prompt_cache_key=fields.string("prompt_cache_key", max_chars=MAX_LABEL_CHARS, is_label=True),
        prompt_cache_retention=fields.choice("prompt_cache_retention", CACHE_RETENTIONS),
        constraint=None if output_format is None else output_format.spec,
        constraint_param="" if output_format is None else output_format.param,
        adapters=read_adapters(fields),
        speculation=read_speculation(fields),
        says_form=any(fields.take(name) is not None for name in FORMAT_FIELDS),
        opts_in_hooks=read_hooks_opt_in(fields),
        field_names=frozenset(fields.names()),
    )
    ignored.extend(fields.unknown())
    return replace(request, ignored_parameters=check_ignored(ignored, strict_fields=strict_fields))


def check_ignored(names: Sequence[str], *, strict_fields: bool) -> tuple[str, ...]:
    """Names of fields that nobody defines, as they may stand in a header: each once, and not too many.
    With `strict_fields` the first of them is refused."""
    shown = tuple(dict.fromkeys(_header_name(name) for name in names))
    if shown and strict_fields:
        raise InvalidRequest(f"Unknown parameter: '{shown[0]}'.", param=shown[0], code="unknown_parameter")
    return shown[:MAX_IGNORED]


def output_members(shared: OutputRequest) -> dict[str, Any]:
    """The inherited fields of a request, to make the whole one from."""
    return {field.name: getattr(shared, field.name) for field in dataclass_fields(OutputRequest)}


def _chat_logprobs(fields: Fields) -> int | None:
    """How many alternatives for each token; None without `logprobs: true`."""
    is_asked = fields.boolean("logprobs") or False
    num_top = fields.integer("top_logprobs", 0, MAX_CHAT_LOGPROBS)
    if num_top is not None and not is_asked:
        raise fields.fail("top_logprobs", "it is only allowed when 'logprobs' is true")
    return (num_top or 0) if is_asked else None


def _best_of(fields: Fields, num_choices: int) -> int:
    """How many answers to generate to each prompt. Only when all are there the best ones are known."""
    best_of = fields.integer("best_of", 1, MAX_CHOICES)
    if best_of is None or best_of == num_choices:
        return num_choices
    if best_of < num_choices:
        raise fields.fail("best_of", f"it must be at least 'n', which is {num_choices}")
    if fields.boolean("stream"):
        raise fields.fail("best_of", "results cannot be streamed when it is greater than 'n'")
    return best_of


def read_stop(fields: Fields) -> tuple[str, ...] | None:
    """A string is a list of one, null says nothing. "" would stop every answer at once."""
    value = fields.take("stop")
    if value is None:
        return None
    stops = value if isinstance(value, list) else [value]
    if len(stops) > MAX_STOPS:
        raise fields.fail("stop", f"it may hold at most {MAX_STOPS} strings")
    for stop in stops:
        if not isinstance(stop, str):
            raise fields.fail("stop", f"expected a string or an array of strings, but got {kind_of(stop)}")
        if not stop:
            raise fields.fail("stop", "a stop string must not be empty")
        if len(stop) > MAX_STOP_CHARS:
            raise fields.fail("stop", f"a stop string may have at most {MAX_STOP_CHARS} characters")
    return tuple(dict.fromkeys(stop for stop in stops if isinstance(stop, str)))


def _wants_usage(fields: Fields, is_stream: bool, ignored: list[str]) -> bool:
    given = fields.mapping("stream_options")
    if given is None:
        return False
    if not is_stream:
        raise fields.fail("stream_options", "it is only allowed when 'stream' is true")
    options = Fields(given, "stream_options.")
    wants_usage = options.boolean("include_usage") or False
    options.boolean("include_obfuscation")  # padding against traffic analysis: never needed by a client
    ignored.extend(f"stream_options.{name}" for name in options.unknown())
    return wants_usage


def _header_name(name: str) -> str:
    """A field's name as it may stand in a header and a log: the caller chose its characters."""
    return _NOT_FOR_HEADERS.sub("?", name[:MAX_IGNORED_CHARS]) or "?"
