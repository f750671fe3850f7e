"""POST /v1/embeddings and POST /v1/rerank."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from accounts.contracts import Principal
from inference.api.answer_keeper import AnswerKeeper
from inference.api.http import HttpRequest, ignored_headers
from inference.api.recorded import RecordedConsumer
from inference.openai.embeddings import EmbeddingsRequest, embeddings_body, parse_embeddings_request
from inference.openai.rerank import RerankRequest, parse_rerank_request, rerank_body
from inference.services.caller import Caller
from inference.services.model_catalog import ServedModel
from inference.streaming.lifecycle import RequestLifecycle

# A float as JSON has about so many characters for each of its bytes.
CHARS_PER_FLOAT_BYTE = 4


class _NumbersConsumer(RecordedConsumer):
    """Answers with numbers, in one body. Neither they nor what they were made of are kept."""

    def keeps_text(self, request: EmbeddingsRequest | RerankRequest, principal: Principal) -> bool:
        return False

    async def _answer_with(
        self,
        write: Callable[[], bytes],
        asked: EmbeddingsRequest | RerankRequest,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
        *,
        num_bytes: int,
    ) -> None:
        began_ts = time.monotonic()
        body = await self._runtime.off_loop(write, num_bytes=num_bytes)
        self._note_built(lifecycle, began_ts, num_bytes=len(body), is_stream=False)
        self._channel.is_terminal = True
        lifecycle.complete(None)
        keeper.complete()
        await lifecycle.recorded()
        await keeper.end("application/json")
        await self.respond.json(body, headers=ignored_headers(asked.ignored_parameters))


class EmbeddingsConsumer(_NumbersConsumer):
    """Texts in, vectors out."""

    endpoint = "embeddings"

    async def read(self, request: HttpRequest) -> EmbeddingsRequest:
        return await self._runtime.parse(parse_embeddings_request, request.body)

    async def serve(
        self,
        asked: EmbeddingsRequest,
        model: ServedModel,
        caller: Caller,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        embedded = await self._runtime.embeddings.texts_embed(model, asked, caller, lifecycle)
        write = partial(
            embeddings_body,
            embedded.rows,
            model=model.description.id,
            num_tokens=embedded.num_tokens,
            is_base64=asked.is_base64,
        )
        num_bytes = CHARS_PER_FLOAT_BYTE * embedded.rows.nbytes
        await self._answer_with(write, asked, lifecycle, keeper, num_bytes=num_bytes)


class RerankConsumer(_NumbersConsumer):
    """A query and documents in, the best documents first out."""

    endpoint = "rerank"

    async def read(self, request: HttpRequest) -> RerankRequest:
        return await self._runtime.parse(parse_rerank_request, request.body)

    async def serve(
        self,
        asked: RerankRequest,
        model: ServedModel,
        caller: Caller,
        lifecycle: RequestLifecycle,
        keeper: AnswerKeeper,
    ) -> None:
        ranked = await self._runtime.embeddings.documents_rank(model, asked, caller, lifecycle)
        write = partial(
            rerank_body,
            asked,
            ranked.rows[:, 0].tolist(),
            model=model.description.id,
            num_tokens=ranked.num_tokens,
        )
        num_bytes = sum(map(len, asked.documents)) if asked.returns_documents else 0
        await self._answer_with(write, asked, lifecycle, keeper, num_bytes=num_bytes)
