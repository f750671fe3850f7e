"""Embeddings whose every row a test can work out: the services and doors around them are the real ones."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from inference.domain.embeddings import (
    EmbeddingDescription,
    EmbeddingMeter,
    EmbeddingRequest,
    EmbeddingStatistics,
)
from inference.domain.errors import SkippyError
from inference.engine.embedding_jobs import FloatArray
from inference.engine.embedding_thread import normalized

WIDTH = 4


def row_of(token_ids: tuple[int, ...]) -> list[float]:
    return [len(token_ids), token_ids[0], token_ids[-1], 1]


class ScriptedEmbeddings:
    """Implements EmbeddingBackend. A test may hold requests back (`gate`) or fail them (`failure`)."""

    def __init__(self, *, max_tokens: int = 100, can_rank: bool = False) -> None:
        self.description = EmbeddingDescription(width=WIDTH, max_tokens=max_tokens, can_rank=can_rank)
        self.requests: list[EmbeddingRequest] = []
        self.failure: SkippyError | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.num_computed = 0
        """Tokens that are computed of a request that is not let through."""

    async def embed(self, request: EmbeddingRequest, meter: EmbeddingMeter) -> FloatArray:
        self.requests.append(request)
        if self.failure is not None:
            raise self.failure
        meter.started(time.monotonic())
        num_tokens = self.num_computed
        try:
            await self.gate.wait()
            num_tokens = request.num_tokens
        finally:
            meter.ended(num_tokens)
        rows = np.array([row_of(text) for text in request.token_ids], dtype=np.float32)
        return rows[:, :1] if self.description.can_rank else normalized(rows)

    def statistics(self) -> EmbeddingStatistics:
        return EmbeddingStatistics(total_texts=sum([len(one.token_ids) for one in self.requests]))
