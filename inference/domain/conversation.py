"""Everything that a chat template is given: the turns, the tools, and how to render them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningOptions
from inference.domain.tools import ToolUse


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOptions:
    """`source` is a template to use instead of the model's own. `kwargs` are variables for it, JSON
    values by name; `documents` a variable that templates for retrieval know.

    With `is_continued` the last message is an assistant's and the answer goes on where it breaks off;
    otherwise `has_generation_prompt` ends the prompt with the beginning of an assistant's turn. All
    text in here is the caller's and is never trusted.
    """

    source: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    documents: tuple[Mapping[str, Any], ...] = ()
    has_generation_prompt: bool = True
    is_continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """At least one message; without any more words, a plain chat."""

    messages: tuple[ChatMessage, ...]
    tool_use: ToolUse = field(default_factory=ToolUse)
    template: TemplateOptions = field(default_factory=TemplateOptions)
    reasoning: ReasoningOptions = field(default_factory=ReasoningOptions)
