"""POST /v1/chat/completions."""

from __future__ import annotations

from inference.api.generating import GeneratingConsumer
from inference.api.http import HttpRequest
from inference.api.question import Question
from inference.openai.protocol import ChatRequest
from inference.openai.validation import parse_chat_request
from inference.services.answer_group import AnswerGroup
from inference.services.caller import Caller
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.streaming.lifecycle import RequestLifecycle


class ChatCompletionsConsumer(GeneratingConsumer):
    """Chat messages in, one assistant message out."""

    endpoint = "chat.completions"

    async def read(self, request: HttpRequest) -> ChatRequest:
        return await self._runtime.parse(parse_chat_request, request.body)

    def question(self, request: ChatRequest, model: ServedModel) -> Question:
        rendering = self._runtime.chat_rendering(request, model)
        return Question(request, rendering, choices=rendering)

    async def start(
        self, model: ServedModel, request: ChatRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream | AnswerGroup:
        return await self._runtime.generation.start_chat(model, request, caller, lifecycle)
