"""What the generating doors share: one lifecycle, one record, streamed or whole.

A door differs from another only in how it reads its body and how it writes its answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from accounts.contracts import Principal
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from inference.domain.errors import InternalError, SkippyError
from inference.domain.events import FinishReason, Usage
from inference.domain.logprobs import AnswerPart
from inference.domain.timings import Timings
from inference.openai.errors import Header
from inference.openai.protocol import OutputRequest
from inference.openai.sse import frame
from inference.runtime import Runtime
from inference.services.generation_stream import GenerationStream
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle


class Rendering(Protocol):
    """How an endpoint writes an answer: JSON chunks for a stream, one body for a whole answer."""

    def text_chunk(self, part: AnswerPart) -> bytes: ...

    def finish_chunk(self, reason: FinishReason) -> bytes: ...

    def usage_chunk(self, usage: Usage, timings: Timings) -> bytes: ...

    def whole(self, answer: AnswerPart, reason: FinishReason, usage: Usage, timings: Timings) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A submitted generation and how to write it. `first_chunk` precedes all text of a stream."""

    stream: GenerationStream
    rendering: Rendering
    request: OutputRequest
    first_chunk: bytes | None = None


class GeneratingConsumer(ApiConsumer):
    """POST only."""

    methods = ("POST",)
    endpoint: ClassVar[str]

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime

    async def start(self, request: HttpRequest, lifecycle: RequestLifecycle) -> Answer:
        """Validate, submit, and say how the answer is written."""
        raise NotImplementedError

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        identity = RequestIdentity(
            request_id=self.respond.request_id,
            endpoint=self.endpoint,
            user_id=principal.user_id,
            key_id=principal.key_id,
        )
        lifecycle = self._runtime.lifecycle(identity)
        try:
            reason = await self._generate(request, lifecycle)
            lifecycle.complete(reason)
        except SkippyError as error:
            lifecycle.fail(error)
            raise
        except asyncio.CancelledError:
            lifecycle.disconnect()
            raise
        except Exception:
            lifecycle.fail(InternalError("The server had an internal error."))
            raise

    async def _generate(self, request: HttpRequest, lifecycle: RequestLifecycle) -> FinishReason:
        answer = await self.start(request, lifecycle)
        try:
            await answer.stream.started()
            if answer.request.is_stream:
                await self._stream(answer)
            else:
                await self._whole(answer)
        finally:
            answer.stream.close()
        return answer.stream.result.reason

    async def _stream(self, answer: Answer) -> None:
        rendering = answer.rendering
        await self.respond.begin_stream(headers=_headers(answer))
        if answer.first_chunk is not None:
            await self.respond.frame(frame(answer.first_chunk))
        async for part in answer.stream.text():
            await self.respond.frame(frame(rendering.text_chunk(part)))
        result = answer.stream.result
        last = frame(rendering.finish_chunk(result.reason))
        if answer.request.wants_usage:
            last += frame(rendering.usage_chunk(result.usage, result.timings))
        await self.respond.end_stream(last)

    async def _whole(self, answer: Answer) -> None:
        parts = [part async for part in answer.stream.text()]
        whole = AnswerPart(
            "".join([part.text for part in parts]), tuple([token for part in parts for token in part.tokens])
        )
        result = answer.stream.result
        body = answer.rendering.whole(whole, result.reason, result.usage, result.timings)
        await self.respond.json(body, headers=_headers(answer))


def _headers(answer: Answer) -> tuple[Header, ...]:
    """`x-ignored-parameters` names the body fields that nobody defines, so that a slip shows."""
    names = answer.request.ignored_parameters
    return ((b"x-ignored-parameters", ", ".join(names).encode("ascii", "replace")),) if names else ()
