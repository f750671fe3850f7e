"""A question, how its answer is written, and the shortest way for its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.api.http import ignored_headers
from inference.domain.errors import SkippyError
from inference.domain.events import Usage
from inference.domain.generation_result import GenerationResult
from inference.domain.kept_answers import StoredResponse
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import Answer, AnswerPart, ContentDelta, MessageDelta
from inference.openai.errors import Header
from inference.openai.protocol import OutputRequest
from inference.streaming.event_channel import EventChannel


class Rendering(Protocol):
    """How an endpoint writes one answer: events of a stream, or one body.

    What the methods for streams return is sent as it is: any number of whole events, with or without
    names; empty where there is nothing to say. They are called in this order: `begin`, then `delta` and
    `text_frame` as they come, then `end` and `conclude`. Errors in a stream are told by `error_event`.
    """

    def begin(self, usage: Usage) -> bytes:
        """The answer has its lane; `usage` knows its prompt."""
        ...

    def delta(self, delta: MessageDelta, tokens: Sequence[ScoredToken] = ()) -> bytes:
        """More of the message. `tokens` are those that it was read from, where they were asked for."""
        ...

    def text_frame(self, text: str) -> bytes:
        """`delta` of a ContentDelta without tokens, for answers in which there is nothing else."""
        ...

    def end(self, result: GenerationResult) -> bytes: ...

    def conclude(self) -> bytes:
        """Behind `end`, once the record of the answer and what is kept of it are safe: what tells the
        client that all is done."""
        ...

    @property
    def error_event(self) -> Callable[[SkippyError], bytes] | None:
        """How this answer's stream tells of a failure and ends; None: as its wire always does."""
        ...

    def whole(self, answer: Answer, result: GenerationResult) -> bytes: ...


class ChoiceRendering(Rendering, Protocol):
    """Where an answer may have several choices: each is written by its own, in a stream from `begin` to
    `finish`. Any of them writes what is said once: `totals` behind all others, or `body`."""

    def for_choice(self, index: int) -> ChoiceRendering: ...

    def finish(self, result: GenerationResult) -> bytes:
        """The choice has ended."""
        ...

    def totals(self, result: GenerationResult) -> bytes:
        """All have; `result` is that of the whole request."""
        ...

    def choice(self, answer: Answer, result: GenerationResult) -> dict[str, object]:
        """A choice, for `body`."""
        ...

    def body(self, choices: Sequence[dict[str, object]], result: GenerationResult) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Question:
    """A validated request and how its answer is written. `stored` is asked, once the answer is complete,
    for what is stored of it where it can be asked for again. `choices` is the rendering where there may be
    several."""

    request: OutputRequest
    rendering: Rendering
    choices: ChoiceRendering | None = None
    stored: Callable[[], StoredResponse] | None = None

    @property
    def headers(self) -> tuple[Header, ...]:
        return ignored_headers(self.request.ignored_parameters)


class FrameWriter:
    """What there is of an answer as frames, written the moment that it is there."""

    __slots__ = ("_channel", "_rendering")

    def __init__(self, rendering: Rendering, channel: EventChannel) -> None:
        self._rendering = rendering
        self._channel = channel

    @property
    def is_writable(self) -> bool:
        return self._channel.is_writable

    def write_text(self, text: str) -> None:
        self._channel.write(self._rendering.text_frame(text))

    def write_deltas(self, deltas: Sequence[MessageDelta]) -> None:
        frames = b"".join([self._rendering.delta(delta) for delta in deltas])
        if frames:
            self._channel.write(frames)


def part_frames(rendering: Rendering, part: AnswerPart) -> bytes:
    """The part's tokens go out with its first delta; without one, with text that is empty so far."""
    first, *others = part.deltas or (ContentDelta(""),)
    return rendering.delta(first, part.tokens) + b"".join([rendering.delta(delta) for delta in others])
