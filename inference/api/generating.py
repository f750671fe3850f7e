"""What the generating doors share: an answer that is streamed or whole.

A door differs from another only in how it reads its body and how it writes its answer.
"""

from __future__ import annotations

import time
from typing import Any

from inference.api.answer_keeper import AnswerKeeper
from inference.api.http import HttpRequest
from inference.api.question import FrameWriter, Question, Rendering
from inference.api.recorded import RecordedConsumer
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import Answer, AnswerPart, ContentDelta, MessageBuilder, MessageDelta
from inference.openai.protocol import OutputRequest
from inference.openai.sse import CONTENT_TYPE as STREAM_TYPE
from inference.services.caller import Caller
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.streaming.lifecycle import RequestLifecycle


class GeneratingConsumer(RecordedConsumer):
    """Answers that are generated: as a stream, or whole."""

    async def read(self, request: HttpRequest) -> OutputRequest:
        """Validate the body."""
        raise NotImplementedError

    def question(self, request: Any, model: ServedModel) -> Question:
        """How the answer to what `read` gave is written."""
        raise NotImplementedError

    async def start(
        self, model: ServedModel, request: Any, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream:
        """Wait until the request has its lane."""
        raise NotImplementedError

    # -- the answer -------------------------------------------------------------------------------

    async def serve(
        self,
        asked: OutputRequest,
        model: ServedModel,
        caller: Caller,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        model.check_generates()
        question = self.question(asked, model)
        if question.rendering.error_event is not None:
            self.respond.error_event = question.rendering.error_event
        stream = await self.start(model, asked, caller, lifecycle)
        try:
            if asked.is_stream:
                await self._stream(question, stream, lifecycle, keeper)
            else:
                await self._whole(question, stream, lifecycle, keeper)
        finally:
            stream.close()

    async def _stream(
        self,
        question: Question,
        stream: GenerationStream,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        rendering = question.rendering
        if not self.respond.is_begun:
            await self.respond.begin_stream(headers=question.headers)
        first = rendering.begin(stream.usage_so_far)
        if first:
            keeper.add(first)
            await self.respond.frame(first)
        if not keeper.is_keeping:
            stream.write_at_once(FrameWriter(rendering, self._channel))
        async for part in stream.parts():
            frames = _frames(rendering, part)
            keeper.add(frames, *part.deltas)
            if frames:
                await self.respond.frame(frames)
        result, began_ts = stream.result, time.monotonic()
        last, conclusion = rendering.end(result), rendering.conclude()
        self._note_built(lifecycle, began_ts, num_bytes=len(last), is_stream=True)
        keeper.add(last + conclusion)
        self._complete(question, stream, lifecycle, keeper)
        # What the client needs is there at once; only the last word says that it is also recorded.
        await self.respond.frame(last)
        await lifecycle.recorded()
        await keeper.end(STREAM_TYPE.decode())
        await self.respond.end_stream(conclusion)

    async def _whole(
        self,
        question: Question,
        stream: GenerationStream,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        deltas: list[MessageDelta] = []
        tokens: list[ScoredToken] = []
        async for part in stream.parts():
            deltas += part.deltas
            tokens += part.tokens
        result, began_ts = stream.result, time.monotonic()
        message = MessageBuilder(deltas).message()
        body = question.rendering.whole(Answer(message, tuple(tokens), tuple(deltas)), result)
        self._note_built(lifecycle, began_ts, num_bytes=len(body), is_stream=False)
        keeper.add(body, *deltas)
        self._complete(question, stream, lifecycle, keeper)
        await lifecycle.recorded()
        await keeper.end("application/json")
        await self.respond.json(body, headers=question.headers)

    def _complete(
        self, question: Question, stream: GenerationStream, lifecycle: RequestLifecycle, keeper: AnswerKeeper
    ) -> None:
        """Before the last frames: who has them may close at once, and that is a success."""
        self._channel.is_terminal = True
        stream.close()
        lifecycle.complete(stream.result.reason)
        keeper.complete(None if question.stored is None else question.stored())


def _frames(rendering: Rendering, part: AnswerPart) -> bytes:
    """The part's tokens go out with its first delta; without one, with text that is empty so far."""
    first, *others = part.deltas or (ContentDelta(""),)
    return rendering.delta(first, part.tokens) + b"".join([rendering.delta(delta) for delta in others])
