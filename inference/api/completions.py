"""POST /v1/completions."""

from __future__ import annotations

from inference.api.generating import GeneratingConsumer
from inference.api.http import HttpRequest
from inference.api.question import Question
from inference.openai.protocol import CompletionRequest
from inference.openai.validation import parse_completion_request
from inference.services.answer_group import AnswerGroup
from inference.services.caller import Caller
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.streaming.lifecycle import RequestLifecycle


class CompletionsConsumer(GeneratingConsumer):
    """A prompt in, its continuation out."""

    endpoint = "completions"

    async def read(self, request: HttpRequest) -> CompletionRequest:
        return await self._runtime.parse(parse_completion_request, request.body)

    def question(self, request: CompletionRequest, model: ServedModel) -> Question:
        rendering = self._runtime.completion_rendering(request, model)
        return Question(request, rendering, choices=rendering)

    async def start(
        self, model: ServedModel, request: CompletionRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream | AnswerGroup:
        return await self._runtime.generation.start_completion(model, request, caller, lifecycle)
