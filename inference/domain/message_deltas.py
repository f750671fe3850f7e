"""An assistant's message as it grows: what a parser makes of generated text, and the wire writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.domain.logprobs import ScoredToken
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


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """The next piece of an answer. `tokens` are those that were read for it, where they were asked for:
    of an answer in which nothing is parsed exactly those of the text, otherwise also those of markup.
    Either may be empty, not both. `is_prompt`: it repeats the prompt, and nothing of it was generated."""

    deltas: tuple[MessageDelta, ...]
    tokens: tuple[ScoredToken, ...] = ()
    is_prompt: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, as the parts of a stream add up to it. `deltas` are what `message` was made of, for
    wires that keep their order."""

    message: AssistantMessage
    tokens: tuple[ScoredToken, ...] = ()
    deltas: tuple[MessageDelta, ...] = ()


class MessageBuilder:
    """Adds up deltas. Linear: the pieces are joined once, by `message`."""

    def __init__(self, deltas: Iterable[MessageDelta] = ()) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[ToolCallBegin, list[str]]] = []
        for delta in deltas:
            self.add(delta)

    def add(self, delta: MessageDelta) -> None:
        match delta:
            case ContentDelta(text):
                self._content.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallBegin():
                self._calls.append((delta, []))
            case ToolCallArguments(index, text):
                self._calls[index][1].append(text)
            case ToolCallEnd():
                pass

    def message(self) -> AssistantMessage:
        """An incomplete call is in it as far as it came, as it is in a stream."""
        return AssistantMessage(
            content="".join(self._content) or None,
            reasoning="".join(self._reasoning) or None,
            tool_calls=tuple(
                [ToolCall(begin.id, begin.name, "".join(arguments)) for begin, arguments in self._calls]
            ),
        )


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

    def interject(self, text: str) -> Sequence[MessageDelta]:
        """Content that the model did not write, behind all that it wrote so far. Only where not
        `is_in_markup`."""
        ...

    @property
    def is_in_markup(self) -> bool:
        """The text so far ends inside of a call or of a mark, or may do so: nothing can be put in behind it.
        False before there is any."""
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
