"""A model's embeddings as the event loop sees them: await, or cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from inference.domain.clock import Clock
from inference.domain.embeddings import (
    EmbeddingDescription,
    EmbeddingMeter,
    EmbeddingRequest,
    EmbeddingStatistics,
)
from inference.domain.errors import SkippyError
from inference.engine.embedding_jobs import Embedder, EmbeddingJob, FloatArray
from inference.engine.embedding_queue import EmbeddingQueue
from inference.engine.embedding_thread import EmbeddingThread

T = TypeVar("T")
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

    async def embed(self, request: EmbeddingRequest, meter: EmbeddingMeter) -> FloatArray:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Outcome] = loop.create_future()

        def take(found: Outcome) -> None:
            if not outcome.done():
                outcome.set_result(found)

        job = EmbeddingJob(
            request, when_started=partial(_call, loop, meter.started), when_ended=partial(_call, loop, take)
        )
        self._thread.submit(job)
        try:
            found = await outcome
        except asyncio.CancelledError:
            self._thread.cancel(job)
            raise
        finally:
            meter.ended(request.num_tokens - job.num_tokens_left)
        if isinstance(found, SkippyError):
            raise found
        return found

    def statistics(self) -> EmbeddingStatistics:
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


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[T], None], argument: T) -> None:
    """From any thread; nothing where the loop was closed, and nobody is left to read."""
    try:
        loop.call_soon_threadsafe(function, argument)
    except RuntimeError:
        if not loop.is_closed():
            raise
