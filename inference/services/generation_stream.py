"""One submitted request, from admission to its last character, as the deltas of a message.

Events of the engine go in; what is safe comes out: whole characters, never a part of a stop string or
of markup. Streaming and whole answers read the same object, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from inference.domain.backend import GenerationHandle, HoldReason
from inference.domain.errors import GenerationFailed
from inference.domain.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Injected,
    PromptScores,
    Signals,
    Started,
    TokenBatch,
    Usage,
)
from inference.domain.generation_result import GenerationResult
from inference.domain.message_deltas import AnswerPart, MessageDelta
from inference.domain.output_filter import OutputFilter
from inference.domain.timings import Timings
from inference.hooking.choice_hooks import ChoiceHooks
from inference.parsing.answer_reader import AnswerReader, ReadPart
from inference.parsing.echoed_prompt import EchoedPrompt
from inference.streaming.usage_meter import UsageMeter


class DeltaWriter(Protocol):
    """Writes to the client at once, in order with all that its owner sends by itself."""

    @property
    def is_writable(self) -> bool:
        """Whether the others may be called now, and need not wait for the reader."""

    def write_text(self, text: str) -> None: ...

    def write_deltas(self, deltas: Sequence[MessageDelta]) -> None: ...


class GenerationStream:
    """Owned by one task on the event loop: `started()`, then iterate `parts()`, and always `close()`.
    With `echo` the answer begins with its prompt. What was generated comes out through the
    `output_filter`, where there is one; a prompt that is repeated does not. `hooks` say how the answer goes
    on where the engine tells how sure the model is.

    `result` is set once `parts()` has ended. `close()` gives up what is not finished and may be
    called at any time, any number of times.
    """

    def __init__(
        self,
        handle: GenerationHandle,
        *,
        reader: AnswerReader,
        submitted_ts: float,
        meter: UsageMeter,
        echo: EchoedPrompt | None = None,
        hooks: ChoiceHooks | None = None,
        output_filter: OutputFilter | None = None,
    ) -> None:
        self._handle = handle
        self._events = aiter(handle)
        self._reader = reader
        self._submitted_ts = submitted_ts
        self._meter = meter
        self._echo = echo
        self._hooks = hooks
        self._output_filter = output_filter
        self._ending: tuple[FinishReason, float] | None = None
        self._result: GenerationResult | None = None

    @property
    def usage_so_far(self) -> Usage:
        """Once it has its lane."""
        return self._meter.usage_so_far

    @property
    def result(self) -> GenerationResult:
        if self._result is None:
            raise RuntimeError("the generation has not ended")
        return self._result

    async def started(self) -> None:
        """Wait until the request has its lane. Raises what it failed with while waiting."""
        event = await self._next_event()
        if not isinstance(event, Started):
            raise GenerationFailed("The engine did not start this request.")
        self._meter.start(event.at_ts, num_cached_tokens=event.num_cached_tokens)

    def write_at_once(self, writer: DeltaWriter) -> None:
        """Let what comes go to `writer` where that can be, while `parts()` is waited for; it then does not
        come out of `parts()`. For answers that end where the engine ends them, without scores."""
        if self._output_filter is not None:
            return
        reader, meter = self._reader, self._meter

        def take_text(batch: TokenBatch) -> bool:
            if not writer.is_writable:
                return False
            text = reader.feed_plain(batch.token_ids)
            meter.count(len(batch.token_ids), batch.at_ts)
            if batch.num_drafted:
                meter.count_drafts(batch)
            if text:
                writer.write_text(text)
            return True

        def take_deltas(batch: TokenBatch) -> bool:
            if not writer.is_writable:
                return False
            read = reader.feed(batch.token_ids)
            meter.count(read.num_tokens, batch.at_ts, num_reasoning=read.num_reasoning_tokens)
            if batch.num_drafted:
                meter.count_drafts(batch)
            if read.deltas:
                writer.write_deltas(read.deltas)
            return True

        if reader.is_plain:
            self._handle.take_at_once(take_text)
        elif not reader.may_end_early and not reader.has_tokens:
            self._handle.take_at_once(take_deltas)

    def parts(self) -> AsyncIterator[AnswerPart]:
        """Pieces of the answer until it ends. Raises what the engine failed with, and the filter."""
        return self._read() if self._output_filter is None else self._filtered(self._output_filter)

    async def _filtered(self, output_filter: OutputFilter) -> AsyncIterator[AnswerPart]:
        async with aclosing(self._read()) as parts:
            async for part in parts:
                if part.is_prompt:
                    yield part
                    continue
                for released in await output_filter.feed(part):
                    yield released
                if output_filter.end is not None:
                    self._handle.cancel()
                    result = self._make_result(output_filter.end, self._meter.last_token_ts)
                    # The same part may have had a stop string, too, but that is not what ended it.
                    self._result = replace(result, stop=None)
                    return
        for released in await output_filter.finish():
            yield released
        if output_filter.end is not None:
            self._result = replace(self.result, reason=output_filter.end, stop=None)

    async def _read(self) -> AsyncGenerator[AnswerPart, None]:
        """The answer as it is generated."""
        if self._echo is not None:
            yield self._echo.begin()
        while self._ending is None:
            event = await self._next_event()
            for part in await self._ruled(event) if isinstance(event, Signals) else self._took(event):
                yield part
        for part in self._parts(self._reader.finish()):
            yield part
        self._result = self._make_result(*self._ending)

    def _took(self, event: Event) -> Sequence[AnswerPart]:
        """What the event adds to the answer."""
        match event:
            case TokenBatch():
                read = self._reader.feed(event.token_ids, event.logprobs)
                self._meter.count(read.num_tokens, event.at_ts, num_reasoning=read.num_reasoning_tokens)
                if event.num_drafted:
                    self._meter.count_drafts(event)
                if read.is_ended:
                    # The engine may be decoding past the end already; that is thrown away.
                    self._ending = FinishReason.STOP, event.at_ts
                    self._handle.cancel()
                return self._parts(read)
            case Finished():
                self._ending = event.reason, event.at_ts
            case PromptScores() if self._echo is not None:
                return (self._echo.score(event.logprobs),)
            case Injected() if self._hooks is not None:
                self._meter.count_injected(event.num_injected)
                shown = self._hooks.injected(event)
                if shown:
                    return self._parts(self._reader.interject(shown))
        return ()

    async def _ruled(self, event: Signals) -> Sequence[AnswerPart]:
        """What hooks add to the answer where they end it; otherwise it goes on, maybe behind their words."""
        if self._hooks is None:
            return ()
        ruling = await self._hooks.rule(event)
        if ruling.stop is None:
            for insertion in ruling.insertions:
                self._handle.inject(insertion.token_ids)
            if event.is_held:
                self._handle.resume(HoldReason.HOOK)
            return ()
        # Without the token that the signals came with.
        self._ending = ruling.stop, event.at_ts
        self._handle.cancel()
        self._meter.count_injected(sum([len(one.token_ids) for one in ruling.insertions]))
        return [part for one in ruling.insertions for part in self._parts(self._reader.interject(one.shown))]

    def _parts(self, read: ReadPart) -> Sequence[AnswerPart]:
        """None where nothing was read that can be shown yet."""
        if not read.deltas and not read.tokens:
            return ()
        tokens = read.tokens if self._echo is None else self._echo.shift(read.tokens)
        return (AnswerPart(read.deltas, tokens),)

    def close(self) -> None:
        """Free lane and cells if they are still held."""
        self._handle.cancel()

    async def _next_event(self) -> Event:
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            raise GenerationFailed("The engine ended this request without a result.") from None
        if isinstance(event, Failed):
            raise event.error
        return event

    def _make_result(self, reason: FinishReason, ended_ts: float | None) -> GenerationResult:
        meter = self._meter
        ended_ts = self._submitted_ts if ended_ts is None else ended_ts
        usage = meter.usage
        assert usage is not None
        started = meter.started_ts or self._submitted_ts
        # An answer without a token still took the time of its prompt, and what learns from that must see it.
        first = meter.first_token_ts or ended_ts
        last = meter.last_token_ts or first
        timings = Timings(
            num_prompt_tokens=usage.prompt_tokens,
            num_cached_tokens=usage.cached_tokens,
            num_predicted_tokens=usage.completion_tokens,
            queue_wait_s=started - self._submitted_ts,
            prompt_s=first - started,
            predicted_s=last - first,
            num_drafted_tokens=meter.num_drafted_tokens,
            num_accepted_tokens=meter.num_accepted_tokens,
        )
        self._handle.note_completed(timings)
        if reason is FinishReason.STOP and self._reader.has_called:
            reason = FinishReason.TOOL_CALLS
        return GenerationResult(reason, usage, timings, stop=self._reader.found_stop)
