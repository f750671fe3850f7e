"""POST /v1/messages and POST /v1/messages/count_tokens, on Anthropic's wire."""

from __future__ import annotations

from accounts.contracts import Principal
from inference.anthropic.rendering import MessageRendering, count_body
from inference.anthropic.validation import parse_count_request, parse_messages_request
from inference.api.generating import GeneratingConsumer
from inference.api.http import HttpRequest, ignored_headers
from inference.api.prompt_consumer import PromptConsumer
from inference.api.question import Question
from inference.openai.ids import new_message_id
from inference.openai.protocol import ChatRequest
from inference.services.answer_group import AnswerGroup
from inference.services.caller import Caller
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.streaming.lifecycle import RequestLifecycle


class MessagesConsumer(GeneratingConsumer):
    """Turns in, one message of blocks out."""

    endpoint = "messages"

    async def read(self, request: HttpRequest) -> ChatRequest:
        return await self._runtime.parse(parse_messages_request, request.body)

    def question(self, request: ChatRequest, model: ServedModel) -> Question:
        return Question(request, MessageRendering(id=new_message_id(), model=model.description.id))

    async def start(
        self, model: ServedModel, request: ChatRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream | AnswerGroup:
        return await self._runtime.generation.start_chat(model, request, caller, lifecycle)


class CountTokensConsumer(PromptConsumer):
    """How many tokens the prompt of these turns has. Generates nothing and leaves no record."""

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        asked = await self._runtime.parse(parse_count_request, request.body)
        with await self._runtime.lease(asked.model, principal) as lease:
            num_tokens = await self._runtime.tokenization.count(
                lease.model, asked.conversation, user_id=principal.user_id
            )
        await self.respond.json(count_body(num_tokens), headers=ignored_headers(asked.ignored_parameters))
