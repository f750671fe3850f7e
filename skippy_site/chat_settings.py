"""The settings of chats: what requests leave out, what they may not say, how tools are offered.

A part of the environment (env.py), in a file of its own because there are many.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.openai.chat_defaults import ChatDefaults
from inference.openai.template_fields import RESERVED_KWARGS
from inference.prompting.prompt import PromptPolicy
from skippy_site.watching_settings import WatchingSettings, parts_of


class ChatSettings(WatchingSettings, frozen=True, kw_only=True):
    """See the module. (Structs have one base each, so the parts of the environment stand in a row.)"""

    chat_system_prompt: Annotated[
        str, Meta(max_length=100_000, description="system prompt of chats that bring none")
    ] = ""
    chat_prefill: Annotated[
        str, Meta(max_length=100_000, description="how answers begin, where no request has begun its own")
    ] = ""
    chat_template_file: Annotated[
        str, Meta(description="a Jinja file to use instead of the model's own chat templates")
    ] = ""
    chat_template_kwargs: Annotated[
        str, Meta(description="variables for chat templates, as a JSON object; requests may override them")
    ] = ""
    chat_template_locked: Annotated[
        str,
        Meta(
            description="comma-separated names of variables that no request may set, such as enable_thinking"
        ),
    ] = ""
    chat_template_requests: Annotated[
        bool, Meta(description="requests may bring a chat template of their own (`chat_template`)")
    ] = False
    skip_chat_parsing: Annotated[
        bool, Meta(description="answers are what models write, thinking and calls included")
    ] = False
    reasoning: Annotated[
        Literal["", "on", "off"], Meta(description="whether models think, where requests do not say")
    ] = ""
    reasoning_format: Annotated[
        Literal["auto", "none", "deepseek", "deepseek-legacy", "hidden"],
        Meta(
            description="what becomes of thinking: `reasoning_content`; none: it stays in the content; "
            "deepseek-legacy: both; hidden: neither"
        ),
    ] = "auto"
    reasoning_effort: Annotated[
        Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"],
        Meta(description="effort of thinking, where requests do not say; templates know it or do not"),
    ] = ""
    reasoning_budget: Annotated[
        int,
        Meta(
            ge=-1,
            le=2**31 - 1,
            description="tokens of thinking, where requests do not say; 0: no thinking; -1: no limit",
        ),
    ] = -1
    force_tool_emulation: Annotated[
        bool,
        Meta(description="tools are described in words and called in text even where templates know them"),
    ] = False

    def check_chat(self) -> None:
        """Raises ValueError with one line that names the variable at fault."""
        self._template_source()
        for variable, names in (
            ("SKIPPY_CHAT_TEMPLATE_KWARGS", frozenset(self._template_variables())),
            ("SKIPPY_CHAT_TEMPLATE_LOCKED", self._locked_names()),
        ):
            for name in sorted(names & RESERVED_KWARGS):
                raise ValueError(f"{variable}: {name} is set by the service")

    def _template_source(self) -> str | None:
        if not self.chat_template_file:
            return None
        try:
            return Path(self.chat_template_file).read_text("utf-8")
        except (OSError, ValueError):
            raise ValueError(
                f"SKIPPY_CHAT_TEMPLATE_FILE: {self.chat_template_file!r} is no text file that can be read"
            ) from None

    def _template_variables(self) -> Mapping[str, Any]:
        if not self.chat_template_kwargs:
            return {}
        try:
            value = json.loads(self.chat_template_kwargs)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise ValueError("SKIPPY_CHAT_TEMPLATE_KWARGS: not a JSON object")
        return value

    def _locked_names(self) -> frozenset[str]:
        return frozenset(parts_of(self.chat_template_locked))

    @property
    def prompt_policy(self) -> PromptPolicy:
        """Whose templates are used, and what for."""
        return PromptPolicy(
            template_source=self._template_source(),
            allows_request_templates=self.chat_template_requests,
            forces_tool_emulation=self.force_tool_emulation,
        )

    @property
    def chat_defaults(self) -> ChatDefaults:
        """What requests leave out."""
        return ChatDefaults(
            system_prompt=self.chat_system_prompt or None,
            prefill=ChatMessage("assistant", self.chat_prefill) if self.chat_prefill else None,
            template_kwargs=self._template_variables(),
            locked_kwargs=self._locked_names(),
            reasoning=ReasoningOptions(
                format=ReasoningFormat(self.reasoning_format),
                is_enabled={"on": True, "off": False}.get(self.reasoning),
                effort=self.reasoning_effort or None,
                max_tokens=None if self.reasoning_budget < 0 else self.reasoning_budget,
            ),
            wants_raw_text=self.skip_chat_parsing or None,
        )
