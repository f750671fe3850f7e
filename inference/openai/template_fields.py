"""How the prompt is to be rendered: a template of the caller's, variables for it, an answer that is begun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inference.domain.conversation import TemplateOptions
from inference.domain.errors import UnsupportedParameter
from inference.domain.messages import ChatMessage
from inference.openai.fields import Fields, kind_of

MAX_TEMPLATE_CHARS = 256 * 1024
MAX_KWARGS_CHARS = 1024 * 1024
MAX_KWARGS = 128
MAX_KWARG_NAME_CHARS = 256
MAX_DOCUMENTS_CHARS = 8 * 1024 * 1024

# What the service itself gives to a template: a caller who sets these could speak as somebody else.
RESERVED_KWARGS = frozenset(
    (
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "documents",
        "chat_template",
        "tokenize",
        "add_generation_prompt",
        "continue_final_message",
        "bos_token",
        "eos_token",
        "raise_exception",
        "strftime_now",
    )
)


def read_template_kwargs(fields: Fields) -> Mapping[str, Any]:
    """`chat_template_kwargs`; null is none."""
    given = fields.mapping("chat_template_kwargs")
    if given is None:
        return {}
    if len(given) > MAX_KWARGS or any(len(name) > MAX_KWARG_NAME_CHARS for name in given):
        raise fields.fail(
            "chat_template_kwargs",
            f"it may have at most {MAX_KWARGS} entries with names of {MAX_KWARG_NAME_CHARS} characters",
        )
    if len(json.dumps(given, ensure_ascii=False)) > MAX_KWARGS_CHARS:
        raise fields.fail("chat_template_kwargs", f"its JSON may have at most {MAX_KWARGS_CHARS} characters")
    kwargs = Fields(given, f"{fields.param('chat_template_kwargs')}.")
    for name in given:
        if name in RESERVED_KWARGS:
            raise kwargs.fail(name, "this is set by the service")
    return given


def read_template(
    fields: Fields, messages: tuple[ChatMessage, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[ChatMessage, ...], TemplateOptions]:
    """The template options, and the messages with `prefill_assistant` behind them.

    Whether a template of the caller's is allowed at all is decided where the model's own are known.
    """
    source = fields.string("chat_template", max_chars=MAX_TEMPLATE_CHARS)
    if source is not None and not source.strip():
        raise fields.fail("chat_template", "it must not be blank")
    if fields.boolean("jinja") is False:
        raise UnsupportedParameter("'jinja' cannot be false: all templates are Jinja.", param="jinja")
    has_generation_prompt = fields.boolean("add_generation_prompt")
    is_continued = fields.boolean("continue_final_message") or False
    prefill = read_prefill(fields)
    if prefill is not None:
        if is_continued:
            raise fields.fail(
                "prefill_assistant", "with 'continue_final_message' the last message is the prefill"
            )
        messages, is_continued = (*messages, prefill), True
    elif is_continued and messages[-1].role != "assistant":
        raise fields.fail("continue_final_message", "the last message must be an assistant's")
    if is_continued and messages[-1].tool_calls:
        raise fields.fail("messages", "a message with 'tool_calls' cannot be continued")
    if is_continued and has_generation_prompt:
        raise fields.fail("add_generation_prompt", "it cannot be true where the last message is continued")
    return messages, TemplateOptions(
        source=source,
        kwargs=kwargs,
        documents=_documents(fields),
        has_generation_prompt=has_generation_prompt is not False and not is_continued,
        is_continued=is_continued,
    )


def read_prefill(fields: Fields) -> ChatMessage | None:
    """A text, or an assistant's message with a text; a blank one is none."""
    value = fields.take("prefill_assistant")
    if value is None:
        return None
    if isinstance(value, str):
        return ChatMessage(role="assistant", content=value) if value else None
    if not isinstance(value, dict):
        raise fields.wrong_kind("prefill_assistant", "a string or an assistant message", value)
    message = Fields(value, f"{fields.param('prefill_assistant')}.")
    if message.string("role") not in ("assistant", None):
        raise message.fail("role", "it must be 'assistant'")
    content, reasoning = message.string("content"), message.string("reasoning_content")
    for name in message.unknown():
        raise message.fail(name, "it cannot be part of an answer that is begun")
    if not content and not reasoning:
        return None
    return ChatMessage(role="assistant", content=content, reasoning=reasoning)


def _documents(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    given = fields.array("documents")
    if not given:
        return ()
    if len(json.dumps(given, ensure_ascii=False)) > MAX_DOCUMENTS_CHARS:
        raise fields.fail("documents", f"its JSON may have at most {MAX_DOCUMENTS_CHARS} characters")
    documents: list[Mapping[str, Any]] = []
    for index, document in enumerate(given):
        if not isinstance(document, dict):
            raise fields.fail(
                "documents", f"document {index}: expected an object, but got {kind_of(document)}"
            )
        documents.append(document)
    return tuple(documents)
