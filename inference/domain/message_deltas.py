"""An assistant's message as it grows: what a parser makes of generated text, and the wire writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.domain.tools import ToolCall


@dataclass(frozen=True, slots=True)
class ContentDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallBegin:
    """A call whose name is known. `index` counts from 0 within the answer; calls come one after
    the other."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of a call's arguments, as JSON text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The call is complete; its arguments are whole."""

    index: int


MessageDelta = ContentDelta | ReasoningDelta | ToolCallBegin | ToolCallArguments | ToolCallEnd


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """All deltas of an answer, added up. `content` is None where there is no text at all."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


class MessageParser(Protocol):
    """Reads one answer's text, once and in order, however it is cut.

    The deltas of all `feed`s and of `finish` add up to the same message for every cut. Text is held
    back only while it may still turn out to be markup; what turns out not to be is content. Costs
    are linear in the text.
    """

    def feed(self, text: str) -> Sequence[MessageDelta]: ...

    def finish(self) -> Sequence[MessageDelta]:
        """The generation has ended, for whatever reason."""
        ...

    @property
    def is_reasoning(self) -> bool:
        """The last of the text that was fed belongs to the model's thinking; tokens are counted by this."""
        ...

    @property
    def is_complete(self) -> bool:
        """Nothing that may still come belongs to the answer: the generation can be ended."""
        ...

    @property
    def has_called(self) -> bool:
        """There is at least one complete call and no incomplete one: `finish_reason` is tool_calls
        where the model has come to its end."""
        ...
