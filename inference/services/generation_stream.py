"""One submitted request, from admission to its last character, as text.

Events of the engine go in; safe text comes out: whole characters, never a part of a stop string.
Streaming and whole answers read the same object, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from inference.domain.backend import GenerationHandle
from inference.domain.errors import GenerationFailed
from inference.domain.events import Event, Failed, Finished, FinishReason, Started, TokenBatch, Usage
from inference.domain.logprobs import AnswerPart
from inference.domain.timings import Timings
from inference.domain.tokenizer import Tokenizer
from inference.parsing.text_stream import TextStream
from inference.parsing.token_scores import TokenScores
from inference.streaming.usage_meter import UsageMeter


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """What is known once the text has ended."""

    reason: FinishReason
    usage: Usage
    timings: Timings


class GenerationStream:
    """Owned by one task on the event loop: `started()`, then iterate `text()`, and always `close()`.

    `result` is set once `text()` has ended. `close()` gives up what is not finished and may be
    called at any time, any number of times.
    """

    def __init__(
        self,
        handle: GenerationHandle,
        *,
        text: TextStream,
        tokenizer: Tokenizer,
        submitted_ts: float,
        meter: UsageMeter,
    ) -> None:
        self._handle = handle
        self._events = aiter(handle)
        self._text = text
        self._scored = TokenScores(tokenizer)
        self._submitted_ts = submitted_ts
        self._meter = meter
        self._result: GenerationResult | None = None

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

    async def text(self) -> AsyncIterator[AnswerPart]:
        """Pieces of text (none without text and tokens) until the answer ends. Raises what the
        engine failed with."""
        reason: FinishReason | None = None
        while reason is None:
            event = await self._next_event()
            match event:
                case TokenBatch():
                    delta = self._text.feed(event.token_ids)
                    self._meter.count(delta.num_tokens, event.at_ts)
                    tokens = self._scored.tokens(event.logprobs, self._text.take_spans())
                    if delta.text or tokens:
                        yield AnswerPart(delta.text, tokens)
                    if delta.is_stopped:
                        # The engine may be decoding past the stop already; that is thrown away.
                        reason = FinishReason.STOP
                        self._handle.cancel()
                case Finished():
                    reason = event.reason
                case Started():
                    continue
        rest = self._text.finish()
        tokens = self._scored.tokens((), self._text.take_spans())
        if rest or tokens:
            yield AnswerPart(rest, tokens)
        self._result = self._make_result(reason)

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

    def _make_result(self, reason: FinishReason) -> GenerationResult:
        meter = self._meter
        usage = meter.usage
        assert usage is not None
        started = meter.started_ts or self._submitted_ts
        first = meter.first_token_ts or started
        last = meter.last_token_ts or first
        timings = Timings(
            num_prompt_tokens=usage.prompt_tokens,
            num_cached_tokens=usage.cached_tokens,
            num_predicted_tokens=usage.completion_tokens,
            queue_wait_s=started - self._submitted_ts,
            prompt_s=first - started,
            predicted_s=last - first,
        )
        self._handle.note_completed(timings)
        return GenerationResult(reason, usage, timings)
