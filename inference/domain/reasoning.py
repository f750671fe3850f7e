"""How a request wants the model to think before it answers, and to be shown what it thought."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ReasoningFormat(Enum):
    """What becomes of thinking in the answer; the words are llama.cpp's.

    AUTO and DEEPSEEK put it into `reasoning_content`, DEEPSEEK_LEGACY there and into the content
    with its markers, HIDDEN nowhere. NONE does not look for it: the content is as the model wrote it.
    """

    AUTO = "auto"
    NONE = "none"
    DEEPSEEK = "deepseek"
    DEEPSEEK_LEGACY = "deepseek-legacy"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningOptions:
    """None is what the client did not say; the service's defaults fill it, and what is None then is
    the template's own affair.

    `is_enabled` is whether to think at all, `effort` one of `EFFORTS`, `max_tokens` the budget after
    which thinking is ended (0: at once).
    """

    format: ReasoningFormat | None = None
    is_enabled: bool | None = None
    effort: str | None = None
    max_tokens: int | None = None

    @property
    def template_variables(self) -> dict[str, object]:
        """By which names templates ask for it; what nobody said is not there, so that a template's own
        default holds. (`thinking` is DeepSeek's and Granite's name, the budgets are those of Seed-OSS and
        of llama.cpp.)"""
        variables: dict[str, object] = {}
        if self.is_enabled is not None:
            variables |= {"enable_thinking": self.is_enabled, "thinking": self.is_enabled}
        if self.max_tokens is not None:
            variables |= {"thinking_budget": self.max_tokens, "reasoning_budget": self.max_tokens}
        if self.effort is not None:
            variables["reasoning_effort"] = self.effort
        return variables

    @property
    def is_parsed(self) -> bool:
        """Thinking is told apart from the content."""
        return self.format is not ReasoningFormat.NONE

    @property
    def is_shown(self) -> bool:
        """What was told apart is part of the answer."""
        return self.format not in (ReasoningFormat.NONE, ReasoningFormat.HIDDEN)


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
