"""POST /v1/chat/completions."""

from __future__ import annotations

from inference.api.generating import Answer, GeneratingConsumer
from inference.api.http import HttpRequest
from inference.openai.validation import parse_chat_request
from inference.streaming.lifecycle import RequestLifecycle


class ChatCompletionsConsumer(GeneratingConsumer):
    """Chat messages in, one assistant message out."""

    endpoint = "chat.completions"

    async def start(self, request: HttpRequest, lifecycle: RequestLifecycle) -> Answer:
        chat = await self._runtime.parse(parse_chat_request, request.body)
        stream = await self._runtime.generation.start_chat(chat, lifecycle)
        rendering = self._runtime.chat_rendering(chat)
        return Answer(stream, rendering, chat, first_chunk=rendering.role_chunk())
