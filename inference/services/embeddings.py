"""The story of a request for embeddings or for a ranking.

    validated request → token ids (on the prompt pool, where users take turns) → limits → the model's queue
    for embeddings → rows

As with generating, what is refused is refused before it costs anything, and what was used is known to the
lifecycle whichever way it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from inference.domain.embeddings import EmbeddingBackend, EmbeddingRequest
from inference.domain.errors import InvalidRequest
from inference.domain.phases import PromptPrepared, Tokenized
from inference.engine.embedding_thread import normalized
from inference.openai.embeddings import EmbeddingInput, EmbeddingsRequest
from inference.openai.rerank import RerankRequest
from inference.prompting.embedding_inputs import EmbeddingInputs
from inference.prompting.text_size import text_bytes
from inference.services.caller import Caller
from inference.services.model_catalog import ServedModel
from inference.services.prompt_pool import PromptPool
from inference.streaming.lifecycle import RequestLifecycle
from inference.streaming.usage_meter import UsageMeter

# OpenAI's bound on what one request may hold.
MAX_REQUEST_TOKENS = 300_000
# Of one turn on the pool's threads: some tens of milliseconds.
MAX_TURN_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """float32 rows, one for each text or pair, and how many tokens they were made from."""

    rows: Any
    num_tokens: int


class EmbeddingService:
    """Every method raises SkippyError where the request cannot be answered, and may be cancelled at any time:
    then nothing more of it is computed."""

    def __init__(self, *, prompt_pool: PromptPool) -> None:
        self._prompt_pool = prompt_pool

    async def texts_embed(
        self, model: ServedModel, request: EmbeddingsRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> Embedded:
        """Rows of length 1, of as many dimensions as were asked for."""
        backend = _backend(model)
        described = backend.description
        if described.can_rank:
            raise InvalidRequest("This model ranks documents; use /v1/rerank.", param="model")
        if request.dimensions is not None and request.dimensions > described.width:
            raise InvalidRequest(
                f"Invalid 'dimensions': this model's embeddings have {described.width}.", param="dimensions"
            )
        inputs = EmbeddingInputs(model.tokenizer, model.description)

        def tokenize(index: int) -> tuple[int, ...]:
            value, param = request.inputs[index], request.param(index)
            return (
                inputs.text(value, param=param)
                if isinstance(value, str)
                else inputs.token_ids(value, param=param)
            )

        sizes = [_size(value) for value in request.inputs]
        embedded = await self._compute(backend, tokenize, sizes, caller, lifecycle, param="input")
        if request.dimensions is None or request.dimensions == described.width:
            return embedded
        return Embedded(normalized(embedded.rows[:, : request.dimensions]), embedded.num_tokens)

    async def documents_rank(
        self, model: ServedModel, request: RerankRequest, caller: Caller, lifecycle: RequestLifecycle
    ) -> Embedded:
        """The score of each document, (number of documents, 1), in their order."""
        backend = _backend(model)
        if not backend.description.can_rank:
            raise InvalidRequest("This model does not rank documents.", param="model")
        inputs = EmbeddingInputs(model.tokenizer, model.description)
        query = await self._prompt_pool.run(caller.user_id, lambda: inputs.query(request.query))

        def tokenize(index: int) -> tuple[int, ...]:
            return query.with_document(request.documents[index], param=request.param(index))

        query_bytes = text_bytes(request.query)
        sizes = [query_bytes + text_bytes(document) for document in request.documents]
        return await self._compute(backend, tokenize, sizes, caller, lifecycle, param="documents")

    async def _compute(
        self,
        backend: EmbeddingBackend,
        tokenize: Callable[[int], tuple[int, ...]],
        sizes: Sequence[int],
        caller: Caller,
        lifecycle: RequestLifecycle,
        *,
        param: str,
    ) -> Embedded:
        request_id, began_ts = lifecycle.identity.request_id, time.monotonic()
        texts: list[tuple[int, ...]] = []
        num_tokens, tokenize_s = 0, 0.0
        for turn in _turns(sizes):
            made, elapsed_s = await self._prompt_pool.run(caller.user_id, partial(_timed, tokenize, turn))
            texts += made
            tokenize_s += elapsed_s
            num_tokens += sum(map(len, made))
            if num_tokens > MAX_REQUEST_TOKENS:
                raise InvalidRequest(
                    f"Invalid '{param}': together they have more than {MAX_REQUEST_TOKENS} tokens.",
                    param=param,
                    code="max_tokens_per_request",
                )
        lifecycle.note_phase(Tokenized(request_id, tokenize_s, num_tokens))
        lifecycle.note_phase(PromptPrepared(request_id, time.monotonic() - began_ts, num_tokens))
        if caller.limit_gate is not None:
            await caller.limit_gate.reserve(num_prompt_tokens=num_tokens, max_tokens=0)
        lifecycle.note_submitted(num_prompt_tokens=num_tokens, max_tokens=0)
        request = EmbeddingRequest(request_id, tuple(texts), user_id=caller.user_id, priority=caller.priority)
        rows = await backend.embed(request, _Counted(lifecycle.meter))
        return Embedded(rows, num_tokens)


class _Counted:
    """An EmbeddingMeter that tells the request's own."""

    def __init__(self, meter: UsageMeter) -> None:
        self._meter = meter

    def started(self, at_ts: float) -> None:
        self._meter.start(at_ts, num_cached_tokens=0)

    def ended(self, num_tokens: int) -> None:
        self._meter.num_prompt_tokens = num_tokens


def _backend(model: ServedModel) -> EmbeddingBackend:
    if model.embeddings is None:
        raise InvalidRequest("This model computes no embeddings.", param="model")
    if model.adapter:
        raise InvalidRequest("Embeddings are computed without adapters: name the model alone.", param="model")
    return model.embeddings


def _size(value: EmbeddingInput) -> int:
    return text_bytes(value) if isinstance(value, str) else len(value)


def _turns(sizes: Sequence[int]) -> Iterator[range]:
    """Indices of what is tokenized in one turn: at least one, and no more than takes a moment."""
    begin = num_bytes = 0
    for index, size in enumerate(sizes):
        if index > begin and num_bytes + size > MAX_TURN_BYTES:
            yield range(begin, index)
            begin, num_bytes = index, 0
        num_bytes += size
    yield range(begin, len(sizes))


def _timed(tokenize: Callable[[int], tuple[int, ...]], turn: range) -> tuple[list[tuple[int, ...]], float]:
    began_ts = time.monotonic()
    made = [tokenize(index) for index in turn]
    return made, time.monotonic() - began_ts
