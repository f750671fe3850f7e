"""A model's embeddings as the event loop sees them: await, or cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inference.domain.clock import Clock
from inference.domain.embeddings import EmbeddingDescription, EmbeddingRequest
from inference.domain.errors import SkippyError
from inference.engine.embedding_jobs import Embedder, EmbeddingJob, EmbeddingQueueStatistics, FloatArray
from inference.engine.embedding_queue import EmbeddingQueue
from inference.engine.embedding_thread import EmbeddingThread

Outcome = FloatArray | SkippyError


class EmbeddingClient:
    """Implements domain.embeddings.EmbeddingBackend over a thread of its own, for one event loop."""

    def __init__(
        self,
        make_embedder: Callable[[], Embedder],
        description: EmbeddingDescription,
        *,
        clock: Clock,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self.description = description
        self._queue = EmbeddingQueue()
        self._thread = EmbeddingThread(
            make_embedder,
            self._queue,
            clock=clock,
            is_busy=is_busy,
            is_normalized=not description.can_rank,
        )

    async def embed(self, request: EmbeddingRequest) -> FloatArray:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Outcome] = loop.create_future()

        def take(found: Outcome) -> None:
            if not outcome.done():
                outcome.set_result(found)

        def when_ended(found: Outcome) -> None:
            # After the loop was closed nobody is left to read.
            if not loop.is_closed():
                loop.call_soon_threadsafe(take, found)

        job = EmbeddingJob(request, when_ended)
        self._thread.submit(job)
        try:
            found = await outcome
        except asyncio.CancelledError:
            self._thread.cancel(job)
            raise
        if isinstance(found, SkippyError):
            raise found
        return found

    def statistics(self) -> EmbeddingQueueStatistics:
        return self._queue.statistics()

    @property
    def is_loaded(self) -> bool:
        return self._thread.is_loaded

    def refuse(self, error: SkippyError) -> None:
        self._thread.refuse(error)

    def begin_stop(self) -> None:
        self._thread.begin_stop()

    async def stop(self, timeout_s: float) -> bool:
        return await asyncio.to_thread(self._thread.stop, timeout_s)

    def __repr__(self) -> str:
        return f"<EmbeddingClient of {self._thread!r}>"
