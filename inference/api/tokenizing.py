"""POST /v1/tokenize and POST /v1/detokenize. They generate nothing and so leave no record."""

from __future__ import annotations

from functools import partial

from accounts.contracts import Principal
from inference.api.http import HttpRequest, ignored_headers
from inference.api.prompt_consumer import PromptConsumer
from inference.openai.tokenization import (
    detokenize_body,
    parse_detokenize_request,
    parse_tokenize_request,
    tokenize_body,
)


class TokenizeConsumer(PromptConsumer):
    """A prompt or messages in, token ids out."""

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        asked = await self._runtime.parse(parse_tokenize_request, request.body)
        with await self._runtime.lease(asked.model, principal) as lease:
            tokens = await self._runtime.tokenization.tokenize(lease.model, asked, user_id=principal.user_id)
        write = partial(
            tokenize_body, tokens.ids, tokens.strings, max_request_tokens=tokens.max_request_tokens
        )
        # Each id is some characters, and each text as well.
        body = await self._runtime.off_loop(write, num_bytes=8 * len(tokens.ids))
        await self.respond.json(body, headers=ignored_headers(asked.ignored_parameters))


class DetokenizeConsumer(PromptConsumer):
    """Token ids in, their text out."""

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        asked = await self._runtime.parse(parse_detokenize_request, request.body)
        with await self._runtime.lease(asked.model, principal) as lease:
            text = await self._runtime.tokenization.detokenize(lease.model, asked, user_id=principal.user_id)
        await self.respond.json(detokenize_body(text), headers=ignored_headers(asked.ignored_parameters))
