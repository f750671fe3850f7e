"""A GenerationStream whose parts go through a filter."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inference.domain.errors import PolicyDenied
from inference.domain.events import FinishReason, PromptScores
from inference.domain.logprobs import TokenLogprobs
from inference.domain.message_deltas import AnswerPart, ContentDelta, MessageBuilder
from inference.domain.requests import GenerationRequest
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.echoed_prompt import EchoedPrompt, echoed_text
from inference.services.generation_stream import GenerationStream
from inference.streaming.usage_meter import UsageMeter
from tests.scripted_engine import ByteTokenizer, ScriptedHandle

TOKENIZER = ByteTokenizer()


class Shouter:
    """Holds all back, and gives it out in capitals; ends or fails where it is told to."""

    def __init__(
        self, *, ends_at: str = "", ends_last: FinishReason | None = None, fails_at: str = ""
    ) -> None:
        self.end: FinishReason | None = None
        self.seen: list[AnswerPart] = []
        self._text = ""
        self._ends_at, self._ends_last, self._fails_at = ends_at, ends_last, fails_at

    async def feed(self, part: AnswerPart) -> Sequence[AnswerPart]:
        self.seen.append(part)
        self._text += MessageBuilder(part.deltas).message().content or ""
        if self._fails_at and self._fails_at in self._text:
            raise PolicyDenied("No.")
        if self._ends_at and self._ends_at in self._text:
            self.end = FinishReason.CONTENT_FILTER
            return [AnswerPart((ContentDelta("[cut]"),))]
        return ()

    async def finish(self) -> Sequence[AnswerPart]:
        self.end = self._ends_last
        return [AnswerPart((ContentDelta(self._text.upper()),))]


class Writer:
    is_writable = True

    def write_text(self, text: str) -> None:
        raise AssertionError("past the filter")

    def write_deltas(self, deltas: object) -> None:
        raise AssertionError("past the filter")


def opened(
    output_filter: Shouter, *, echo: EchoedPrompt | None = None
) -> tuple[ScriptedHandle, GenerationStream]:
    handle = ScriptedHandle(GenerationRequest("r", (1,), 100), None).start()
    stream = GenerationStream(
        handle,
        reader=AnswerReader(TOKENIZER),
        submitted_ts=1000.0,
        meter=UsageMeter(),
        echo=echo,
        output_filter=output_filter,
    )
    return handle, stream


async def text_of(stream: GenerationStream) -> str:
    await stream.started()
    deltas = [delta async for part in stream.parts() for delta in part.deltas]
    return MessageBuilder(deltas).message().content or ""


async def test_what_comes_out_is_what_the_filter_gives_out() -> None:
    handle, stream = opened(Shouter())
    handle.say("hello ").say("you").finish(FinishReason.LENGTH)

    assert await text_of(stream) == "HELLO YOU"
    assert stream.result.reason is FinishReason.LENGTH
    assert stream.result.usage.completion_tokens == len("hello you")
    assert len(handle.completed) == 1


async def test_nothing_is_written_past_the_filter() -> None:
    handle, stream = opened(Shouter())
    stream.write_at_once(Writer())
    handle.say("a").finish()
    assert await text_of(stream) == "A"


async def test_the_filter_ends_an_answer_that_would_go_on() -> None:
    handle, stream = opened(Shouter(ends_at="bad"))
    handle.say("all b").say("ad").say(" more")

    assert await text_of(stream) == "[cut]"
    assert handle.is_cancelled
    assert stream.result.reason is FinishReason.CONTENT_FILTER
    assert stream.result.usage.completion_tokens == len("all bad")
    assert len(handle.completed) == 1


async def test_the_filter_may_say_at_the_end_why_it_ended() -> None:
    handle, stream = opened(Shouter(ends_last=FinishReason.CONTENT_FILTER))
    handle.say("x").finish(FinishReason.STOP)
    assert await text_of(stream) == "X"
    assert stream.result.reason is FinishReason.CONTENT_FILTER
    assert len(handle.completed) == 1


async def test_a_refusal_of_the_filter_comes_out_of_the_parts() -> None:
    handle, stream = opened(Shouter(fails_at="bad"))
    handle.say("bad")
    with pytest.raises(PolicyDenied):
        await text_of(stream)
    with pytest.raises(RuntimeError):
        _ = stream.result


async def test_a_prompt_that_is_repeated_passes_by() -> None:
    output_filter = Shouter()
    echo = EchoedPrompt(TOKENIZER, echoed_text(TOKENIZER, tuple(b"ab"), "ab"), is_scored=True)
    handle, stream = opened(output_filter, echo=echo)
    handle.tell(PromptScores((TokenLogprobs(-0.5),), 1001.5))
    handle.say("c").finish()
    assert await text_of(stream) == "abC"
    assert not any(part.is_prompt for part in output_filter.seen)
