"""POST /v1/completions."""

from __future__ import annotations

from inference.api.generating import Answer, GeneratingConsumer
from inference.api.http import HttpRequest
from inference.openai.validation import parse_completion_request
from inference.streaming.lifecycle import RequestLifecycle


class CompletionsConsumer(GeneratingConsumer):
    """A prompt in, its continuation out."""

    endpoint = "completions"

    async def start(self, request: HttpRequest, lifecycle: RequestLifecycle) -> Answer:
        completion = await self._runtime.parse(parse_completion_request, request.body)
        stream = await self._runtime.generation.start_completion(completion, lifecycle)
        return Answer(stream, self._runtime.completion_rendering(completion), completion)
