"""What an administrator says about chats: values for what requests leave out, and what they may not say.

Defaults fill only what is absent. Nothing of a request is overruled in silence: what it may not say is a
400 that names it, unless it says just what the administrator did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from inference.domain.conversation import Conversation, TemplateOptions
from inference.domain.errors import InvalidRequest
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.openai.output_defaults import OutputDefaults
from inference.openai.protocol import DEFAULT_CHAT_TOKENS, ChatRequest

# Variables by which templates ask for the same; who locks one locks the other.
_TWINS = {
    "enable_thinking": "thinking",
    "thinking": "enable_thinking",
    "thinking_budget": "reasoning_budget",
    "reasoning_budget": "thinking_budget",
}
# The fields of a request that set variables, where their names differ.
_FIELDS = {"thinking": "enable_thinking", "reasoning_budget": "thinking_budget"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDefaults:
    """None is what is not said here. `system_prompt` begins conversations that have no system turn,
    `prefill` the answers that no request has begun; empty ones are none. `template_source` takes the place
    of the model's own templates (whoever makes prompts is told; nothing is filled). `template_kwargs` are
    variables for the template, of which requests may not set `locked_kwargs`, by whatever name they try.

    `reasoning` fills what a request does not say about thinking; a budget of 0 or an effort of "none"
    turns it off, others turn it on, if nothing else does.
    """

    output: OutputDefaults = field(default_factory=OutputDefaults)
    system_prompt: str | None = None
    prefill: ChatMessage | None = None
    template_source: str | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    locked_kwargs: frozenset[str] = frozenset()
    reasoning: ReasoningOptions = field(default_factory=ReasoningOptions)
    wants_raw_text: bool | None = None

    def fill(self, request: ChatRequest) -> ChatRequest:
        """The request with nothing left out. Raises InvalidRequest for what it may not say."""
        filled = self.fill_conversation(request.conversation)
        said = request.wants_raw_text
        return replace(
            self.output.fill(request, service_max_tokens=DEFAULT_CHAT_TOKENS),
            messages=filled.messages,
            template=filled.template,
            reasoning=filled.reasoning,
            wants_raw_text=self.wants_raw_text if said is None else said,
        )

    def over(self, lower: ChatDefaults) -> ChatDefaults:
        """These, and where they say nothing, those of `lower`; what either locks is locked."""
        return ChatDefaults(
            output=self.output.over(lower.output),
            system_prompt=lower.system_prompt if self.system_prompt is None else self.system_prompt,
            prefill=lower.prefill if self.prefill is None else self.prefill,
            template_source=lower.template_source if self.template_source is None else self.template_source,
            template_kwargs={**lower.template_kwargs, **self.template_kwargs},
            locked_kwargs=lower.locked_kwargs | self.locked_kwargs,
            reasoning=lower._reasoning(self.reasoning),
            wants_raw_text=lower.wants_raw_text if self.wants_raw_text is None else self.wants_raw_text,
        )

    def within_vocabulary(self, num_tokens: int) -> ChatDefaults:
        """As OutputDefaults'."""
        return replace(self, output=self.output.within_vocabulary(num_tokens))

    def fill_conversation(self, said: Conversation) -> Conversation:
        """The same for what a prompt is made of alone."""
        self._check_locked(said)
        messages, template = self._begun(said)
        reasoning = self._reasoning(said.reasoning)
        locked = {name: value for name, value in self._locked().items() if value is not None}
        kwargs = {**self.template_kwargs, **reasoning.template_variables, **template.kwargs, **locked}
        return replace(
            said, messages=messages, template=replace(template, kwargs=kwargs), reasoning=reasoning
        )

    def _begun(self, said: Conversation) -> tuple[tuple[ChatMessage, ...], TemplateOptions]:
        messages, template = said.messages, said.template
        if self.system_prompt and not any(turn.role in ("system", "developer") for turn in messages):
            messages = (ChatMessage(role="system", content=self.system_prompt), *messages)
        begun = self.prefill
        if (
            begun is not None
            and (begun.content or begun.reasoning)
            and template.has_generation_prompt
            and not template.is_continued
        ):
            messages = (*messages, begun)
            template = replace(template, is_continued=True, has_generation_prompt=False)
        return messages, template

    def _reasoning(self, said: ReasoningOptions) -> ReasoningOptions:
        own = self.reasoning
        format = said.format or own.format or ReasoningFormat.AUTO
        if said.is_enabled is False:
            return replace(said, format=format)  # nothing to spend, and no effort to make
        effort, max_tokens = own.effort, own.max_tokens
        if said.is_enabled:
            # Whoever turns thinking on does not mean the values that turn it off.
            effort, max_tokens = None if effort == "none" else effort, max_tokens or None
        is_enabled = own.is_enabled if said.is_enabled is None else said.is_enabled
        if is_enabled is None and (effort is not None or max_tokens is not None):
            is_enabled = effort != "none" and max_tokens != 0
        return ReasoningOptions(
            format=format,
            is_enabled=is_enabled,
            effort=said.effort or effort,
            max_tokens=max_tokens if said.max_tokens is None else said.max_tokens,
        )

    def _locked(self) -> dict[str, Any]:
        """What the locked variables are; None where they are not set."""
        values = self.template_kwargs
        names = self.locked_kwargs | {_TWINS[name] for name in self.locked_kwargs if name in _TWINS}
        return {name: values.get(name, values.get(_TWINS.get(name, name))) for name in names}

    def _check_locked(self, said: Conversation) -> None:
        given, variables = said.template.kwargs, said.reasoning.template_variables
        for name, value in self._locked().items():
            if name in given:
                _check_same(value, given[name], f"chat_template_kwargs.{name}")
            elif name in variables:
                _check_same(value, variables[name], _FIELDS.get(name, name))


def _check_same(locked: object, said: object, param: str) -> None:
    if locked is None or said != locked:
        raise InvalidRequest(f"Invalid '{param}': it is set by the administrator.", param=param)
