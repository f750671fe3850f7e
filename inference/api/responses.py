"""POST /v1/responses and its token count, and what can be done with responses that were stored."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from accounts.contracts import Principal
from accounts.scopes import Scope
from inference.api.consumer import ApiConsumer
from inference.api.generating import GeneratingConsumer
from inference.api.http import HttpRequest, ignored_headers
from inference.api.question import Question
from inference.api.recorded import ErrorEvent
from inference.domain.errors import InvalidRequest
from inference.domain.kept_answers import StoredResponse
from inference.openai.json_text import json_bytes
from inference.openai.responses.item_list import item_list_body, parse_item_query, said_items
from inference.openai.responses.protocol import ResponseRequest
from inference.openai.responses.rendering import ResponseRendering, early_error
from inference.openai.responses.validation import parse_response_request
from inference.runtime import Runtime
from inference.services.answer_group import AnswerGroup
from inference.services.caller import Caller
from inference.services.generation_stream import GenerationStream
from inference.services.model_catalog import ServedModel
from inference.streaming.lifecycle import RequestLifecycle


async def read_response_request(runtime: Runtime, body: bytes, principal: Principal) -> ResponseRequest:
    """A validated request, with all that it goes on from. Raises InvalidRequest, and as KeptResponses."""
    asked = await runtime.parse(parse_response_request, body)
    if asked.is_stored and not principal.keeps_text:
        raise InvalidRequest("Invalid 'store': this API key does not allow that text is kept.", param="store")
    if asked.previous_response_id is None:
        return asked
    conversation = await runtime.answer_keeping.responses.conversation(
        response_id=asked.previous_response_id, key_id=principal.key_id
    )

    def parse_with_earlier() -> ResponseRequest:
        strict, earlier = runtime.settings.strict_fields, said_items(conversation)
        return parse_response_request(body, strict_fields=strict, earlier=earlier)

    num_bytes = len(body) + sum(kept.num_chars for kept in conversation)
    return await runtime.off_loop(parse_with_earlier, num_bytes=num_bytes)


class ResponsesConsumer(GeneratingConsumer):
    """Items in, items out; and where the key keeps text, an id to go on from."""

    endpoint = "responses"

    def early_error_event(self) -> ErrorEvent:
        return early_error

    async def read(self, request: HttpRequest) -> ResponseRequest:
        assert self.principal is not None
        return await read_response_request(self._runtime, request.body, self.principal)

    def keeps_text(self, request: ResponseRequest, principal: Principal) -> bool:
        return principal.keeps_text and request.is_stored is not False

    def question(self, request: ResponseRequest, model: ServedModel) -> Question:
        assert self.principal is not None
        is_stored = self.keeps_text(request, self.principal)
        rendering = self._runtime.response_rendering(request, model, is_stored=is_stored)
        if not is_stored:
            return Question(request, rendering)
        return Question(request, rendering, stored=partial(_stored, request, rendering))

    async def start(
        self, model: ServedModel, request: ResponseRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> GenerationStream | AnswerGroup:
        try:
            return await self._runtime.generation.start_chat(model, request, caller, lifecycle)
        except InvalidRequest as error:
            raise _in_own_words(error) from None


def _in_own_words(error: InvalidRequest) -> InvalidRequest:
    """A chat's objection to its messages is one to the input, which they were made of."""
    if error.param != "messages":
        return error
    message = error.message.replace("'messages'", "'input'")
    return type(error)(message, param="input", code=error.code, reason=error.reason)


def _stored(request: ResponseRequest, rendering: ResponseRendering) -> StoredResponse:
    final = rendering.final_object
    return StoredResponse(final["id"], request.previous_response_id or "", json_bytes(final).decode())


class InputTokensConsumer(ApiConsumer):
    """POST /v1/responses/input_tokens: how many tokens the prompt of a response would have. Generates
    nothing and leaves no record."""

    methods = ("POST",)
    needs_scope = Scope.INFERENCE

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        asked = await read_response_request(self._runtime, request.body, principal)
        try:
            with await self._runtime.lease(asked.model, principal) as lease:
                num_tokens = await self._runtime.tokenization.count(
                    lease.model, asked.conversation, user_id=principal.user_id
                )
        except InvalidRequest as error:
            raise _in_own_words(error) from None
        body = orjson.dumps({"object": "response.input_tokens", "input_tokens": num_tokens})
        await self.respond.json(body, headers=ignored_headers(asked.ignored_parameters))


class _StoredConsumer(ApiConsumer):
    """Of one stored response, which is there for the key alone that it was made with."""

    needs_scope = Scope.INFERENCE

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime
        self._responses = runtime.answer_keeping.responses


class StoredResponseConsumer(_StoredConsumer):
    """GET and DELETE /v1/responses/{id}."""

    methods = ("GET", "DELETE")

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        response_id = request.argument("response_id")
        if request.method == "DELETE":
            await self._responses.forget(response_id=response_id, key_id=principal.key_id)
            deleted = {"id": response_id, "object": "response", "deleted": True}
            await self.respond.json(orjson.dumps(deleted))
            return
        kept = await self._responses.response(response_id=response_id, key_id=principal.key_id)
        await self.respond.json(kept.stored.object.encode())


class InputItemsConsumer(_StoredConsumer):
    """GET /v1/responses/{id}/input_items."""

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        query = parse_item_query(request.query)
        conversation = await self._responses.conversation(
            response_id=request.argument("response_id"), key_id=principal.key_id
        )
        body = await self._runtime.off_loop(
            partial(item_list_body, conversation, query),
            num_bytes=sum(kept.num_chars for kept in conversation),
        )
        await self.respond.json(body)
