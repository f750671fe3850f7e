from __future__ import annotations

from collections.abc import Callable, Sequence

from inference.domain.events import Finished, FinishReason, Started, TokenBatch
from inference.domain.message_deltas import ContentDelta, MessageBuilder, MessageDelta
from inference.domain.reasoning import ReasoningOptions
from inference.domain.requests import GenerationRequest
from inference.domain.tools import ToolSpec, ToolUse
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.formats.hermes import HermesFormat
from inference.parsing.formats.message_format import Thinking
from inference.services.generation_stream import GenerationStream
from inference.streaming.usage_meter import UsageMeter
from tests.scripted_engine import ByteTokenizer, ScriptedHandle

TEXT = '<think>Hm</think>Hi <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
TOKENIZER = ByteTokenizer()


class DirectHandle(ScriptedHandle):
    """Gives its batches to whoever takes them at once."""

    take: Callable[[TokenBatch], bool] | None = None

    def take_at_once(self, take: Callable[[TokenBatch], bool]) -> None:
        self.take = take

    def say(self, text: str) -> DirectHandle:
        for token_id in text.encode():
            batch = TokenBatch((token_id,), 1002.0)
            if self.take is None or not self.take(batch):
                self.tell(batch)
        return self


class Writer:
    def __init__(self) -> None:
        self.is_writable = True
        self.deltas: list[MessageDelta] = []

    def write_text(self, text: str) -> None:
        self.deltas.append(ContentDelta(text))

    def write_deltas(self, deltas: Sequence[MessageDelta]) -> None:
        self.deltas += deltas


def opened(*, is_parsed: bool = True, **options: bool) -> tuple[DirectHandle, GenerationStream]:
    handle = DirectHandle(GenerationRequest("r", (1,), 100), None)
    handle.tell(Started(1001.0))
    parser = None
    if is_parsed:
        tools = ToolUse((ToolSpec("f"),))
        parser = HermesFormat(Thinking("<think>", "</think>")).parser(tools, ReasoningOptions())
    reader = AnswerReader(TOKENIZER, parser=parser, **options)
    return handle, GenerationStream(handle, reader=reader, submitted_ts=1000.0, meter=UsageMeter())


async def rest_of(stream: GenerationStream) -> list[MessageDelta]:
    return [delta async for part in stream.parts() for delta in part.deltas]


async def test_deltas_are_written_at_once_while_that_can_be() -> None:
    handle, stream = opened()
    writer = Writer()
    await stream.started()
    stream.write_at_once(writer)

    handle.say(TEXT[:30])
    writer.is_writable = False
    handle.say(TEXT[30:])
    handle.tell(Finished(FinishReason.STOP, 1003.0))
    at_once = list(writer.deltas)
    deltas = at_once + await rest_of(stream)

    message = MessageBuilder(deltas).message()
    assert at_once
    assert len(at_once) < len(deltas)
    assert (message.content, message.reasoning) == ("Hi", "Hm")
    assert [call.arguments for call in message.tool_calls] == ['{"a": 1}']
    assert stream.result.reason is FinishReason.TOOL_CALLS
    assert stream.result.usage.completion_tokens == len(TEXT)
    assert stream.result.usage.reasoning_tokens == len(">Hm</think")


async def test_plain_text_is_written_at_once() -> None:
    handle, stream = opened(is_parsed=False)
    writer = Writer()
    await stream.started()
    stream.write_at_once(writer)
    handle.say("Hi").tell(Finished(FinishReason.LENGTH, 1003.0))
    assert await rest_of(stream) == []
    assert writer.deltas == [ContentDelta("H"), ContentDelta("i")]
    assert stream.result.reason is FinishReason.LENGTH


async def test_what_may_end_before_the_engine_ends_it_is_not_written_at_once() -> None:
    for handle, stream in (opened(is_parser_early=True), opened(tracks_tokens=True)):
        await stream.started()
        stream.write_at_once(Writer())
        assert handle.take is None


async def test_an_answer_without_a_token_took_the_time_of_its_prompt() -> None:
    handle, stream = opened(is_parsed=False)
    await stream.started()
    handle.tell(Finished(FinishReason.STOP, 1003.5))

    assert await rest_of(stream) == []
    timings = stream.result.timings
    assert (timings.queue_wait_s, timings.prompt_s, timings.predicted_s) == (1.0, 2.5, 0.0)
    assert stream.result.usage.completion_tokens == 0


async def test_guessed_tokens_are_counted_however_they_are_read() -> None:
    for is_written in (False, True):
        handle, stream = opened(is_parsed=False)
        await stream.started()
        if is_written:
            stream.write_at_once(Writer())
        for batch in (
            TokenBatch(tuple(b"abc"), 1002.0, num_drafted=4, num_accepted=2),
            TokenBatch((), 1002.5, num_drafted=1),
        ):
            if handle.take is None or not handle.take(batch):
                handle.tell(batch)
        handle.tell(Finished(FinishReason.STOP, 1003.0))
        await rest_of(stream)
        timings = stream.result.timings
        assert (timings.num_drafted_tokens, timings.num_accepted_tokens) == (5, 2)
        assert stream.result.usage.completion_tokens == 3
