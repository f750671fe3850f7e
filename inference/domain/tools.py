"""The functions that a caller offers to the model, and what was said and called with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A function that the model may call. `parameters` is its JSON schema, `{}` where it takes none;
    `is_strict` asks that arguments fit it, always. All of it is the caller's text and is never trusted."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    is_strict: bool = False


class ToolMode(Enum):
    """OpenAI's `tool_choice`. NAMED is REQUIRED with one function alone."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What one request offers. `name` is the function of NAMED, one of `tools`; `allowed_names` are
    OpenAI's `allowed_tools`: those that AUTO and REQUIRED may call, None for all.

    With NONE the template still sees the tools, but nothing is parsed and nothing may be called.
    Without `is_parallel` there is one call at most.
    """

    tools: tuple[ToolSpec, ...] = ()
    mode: ToolMode = ToolMode.AUTO
    name: str | None = None
    is_parallel: bool = True
    allowed_names: frozenset[str] | None = None

    @property
    def callable_tools(self) -> tuple[ToolSpec, ...]:
        """Those that this answer may call."""
        if self.mode is ToolMode.NONE:
            return ()
        if self.mode is ToolMode.NAMED:
            return tuple(tool for tool in self.tools if tool.name == self.name)
        if self.allowed_names is not None:
            return tuple(tool for tool in self.tools if tool.name in self.allowed_names)
        return self.tools

    @property
    def is_enforced(self) -> bool:
        """The answer must be a call, or calls, and nothing else."""
        return self.mode in (ToolMode.REQUIRED, ToolMode.NAMED)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call in the history or in an answer. `arguments` is text, JSON where the model was right."""

    id: str
    name: str
    arguments: str
