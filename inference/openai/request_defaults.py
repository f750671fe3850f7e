"""Reading what an administrator wrote down as a model's defaults: bodies of requests without what only a
request can say.

They are read by the rules for requests themselves, so that what is saved is what a request could have sent.
A name that is not known here is refused: dropped in silence, it would be a default that nobody gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inference.domain.constraint import Grammar
from inference.domain.messages import ChatMessage
from inference.openai.chat_defaults import ChatDefaults
from inference.openai.fields import Fields
from inference.openai.output_defaults import OutputDefaults
from inference.openai.protocol import MAX_INT32
from inference.openai.reasoning_fields import read_reasoning
from inference.openai.sampling_fields import read_sampling
from inference.openai.structured_output import MAX_TEXT_CHARS, OutputFormat, read_json_schema
from inference.openai.template_fields import (
    MAX_KWARG_NAME_CHARS,
    MAX_KWARGS,
    MAX_TEMPLATE_CHARS,
    RESERVED_KWARGS,
    read_prefill,
    read_template_kwargs,
)
from inference.openai.validation import read_stop

MAX_SYSTEM_PROMPT_CHARS = 256 * 1024
_MAX_SHOWN_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """Of one model, for each of the two kinds of generating requests."""

    chat: ChatDefaults = field(default_factory=ChatDefaults)
    completion: OutputDefaults = field(default_factory=OutputDefaults)

    def within_vocabulary(self, num_tokens: int) -> RequestDefaults:
        return RequestDefaults(
            chat=self.chat.within_vocabulary(num_tokens),
            completion=self.completion.within_vocabulary(num_tokens),
        )


def parse_request_defaults(
    chat: Mapping[str, Any], completion: Mapping[str, Any], *, service: ChatDefaults
) -> RequestDefaults:
    """What a model's row says, over what the service's settings do. Raises InvalidRequest as below."""
    return RequestDefaults(
        chat=parse_chat_defaults(chat).over(service), completion=parse_completion_defaults(completion)
    )


def parse_chat_defaults(values: Mapping[str, Any], *, param: str = "chat_defaults") -> ChatDefaults:
    """Raises InvalidRequest naming the setting, as "chat_defaults.temperature"."""
    fields = Fields(dict(values), f"{param}.")
    unread: list[str] = []
    kwargs = read_template_kwargs(fields)
    defaults = ChatDefaults(
        output=_output(fields, ("max_tokens", "max_completion_tokens")),
        system_prompt=fields.string("system_prompt", max_chars=MAX_SYSTEM_PROMPT_CHARS),
        prefill=_prefill(fields),
        template_source=_template(fields),
        template_kwargs=kwargs,
        locked_kwargs=_locked(fields),
        reasoning=read_reasoning(fields, kwargs, unread),
        wants_raw_text=fields.boolean("skip_chat_parsing"),
    )
    _refuse_unread(fields, unread)
    return defaults


def parse_completion_defaults(
    values: Mapping[str, Any], *, param: str = "completion_defaults"
) -> OutputDefaults:
    """Raises InvalidRequest naming the setting."""
    fields = Fields(dict(values), f"{param}.")
    defaults = _output(fields, ("max_tokens",))
    _refuse_unread(fields, [])
    return defaults


def _output(fields: Fields, limits: tuple[str, ...]) -> OutputDefaults:
    asked = [fields.integer(name, 1, MAX_INT32) for name in limits]
    form = _form(fields)
    return OutputDefaults(
        sampling=read_sampling(fields),
        stop=read_stop(fields),
        ignore_eos=fields.boolean("ignore_eos"),
        max_tokens=next((value for value in reversed(asked) if value is not None), None),
        max_tokens_ceiling=fields.integer("max_tokens_ceiling", 1, MAX_INT32),
        constraint=None if form is None else form.spec,
        constraint_param="" if form is None else form.param,
    )


def _form(fields: Fields) -> OutputFormat | None:
    """`grammar` (GBNF) goes before `json_schema`, as behaviour §8.3 has it; who writes it here is trusted."""
    schema = read_json_schema(fields)
    text = fields.string("grammar", max_chars=MAX_TEXT_CHARS)
    if text:
        return OutputFormat(Grammar(text, is_gbnf=True, is_trusted=True), fields.param("grammar"))
    return schema


def _prefill(fields: Fields) -> ChatMessage | None:
    """An empty one is said, too: answers are then not begun, whatever the service's settings say."""
    if fields.take("prefill_assistant") == "":
        return ChatMessage("assistant", "")
    return read_prefill(fields)


def _template(fields: Fields) -> str | None:
    source = fields.string("chat_template", max_chars=MAX_TEMPLATE_CHARS)
    if source is not None and not source.strip():
        raise fields.fail("chat_template", "it must not be blank")
    if fields.boolean("jinja") is False:
        raise fields.fail("jinja", "it cannot be false: all templates are Jinja")
    return source


def _locked(fields: Fields) -> frozenset[str]:
    """Names of template variables that no request may set."""
    given = fields.array("chat_template_locked")
    if given is None:
        return frozenset()
    names = [name for name in given if isinstance(name, str) and 0 < len(name) <= MAX_KWARG_NAME_CHARS]
    if len(names) != len(given) or len(given) > MAX_KWARGS:
        raise fields.fail("chat_template_locked", f"expected at most {MAX_KWARGS} names of variables")
    for name in names:
        if name in RESERVED_KWARGS:
            raise fields.fail("chat_template_locked", f"{name} is set by the service")
    return frozenset(names)


def _refuse_unread(fields: Fields, unread: list[str]) -> None:
    for name in (*unread, *fields.unknown()):
        shown = "".join(c if c.isprintable() else "?" for c in name[:_MAX_SHOWN_CHARS])
        raise fields.fail(shown, "it cannot be a default")
