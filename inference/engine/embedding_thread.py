"""The thread that owns a model's context for embeddings: made at the first request, freed at the end.

It shares the cores with the threads that generate, so what it takes at once is bounded by time: little
while anybody's answer is on its way (and then it also leaves them as much time as it took), more where it
is alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np

from inference.domain.clock import Clock
from inference.domain.errors import GenerationFailed, ServiceUnavailable, SkippyError
from inference.engine.embedding_jobs import (
    BatchLimits,
    Embedder,
    EmbeddingJob,
    FloatArray,
    TextBatch,
    TextPart,
)
from inference.engine.embedding_queue import EmbeddingQueue
from inference.engine.pacing import PrefillPacer

logger = logging.getLogger(__name__)

TARGET_ALONE_S = 0.5
TARGET_BESIDE_STREAMS_S = 0.1
MIN_BATCH_TOKENS = 32
# More at once is no faster, and others wait longer (docs/performance.md).
PREFERRED_BATCH_TOKENS = 256
# For each second that it computed, beside streams.
PAUSE_BESIDE_STREAMS = 1.0
IDLE_WAKEUP_S = 1.0

UNLOADED_MESSAGE = "The model is being unloaded."
CANNOT_EMBED_MESSAGE = "The model cannot compute embeddings now."
FAILED_MESSAGE = "The model could not compute these embeddings."


class EmbeddingThread:
    """Runs an EmbeddingQueue with what `make_embedder` makes, on the thread and for it.

    `is_busy` says whether anybody's answer is being generated on this machine; it is asked before each
    batch. `is_normalized`: rows are divided by their length. Where no context can be made everybody who
    waits is told ServiceUnavailable, and the next request tries again.
    """

    def __init__(
        self,
        make_embedder: Callable[[], Embedder],
        queue: EmbeddingQueue,
        *,
        clock: Clock,
        is_busy: Callable[[], bool] = lambda: False,
        is_normalized: bool = True,
    ) -> None:
        self._make_embedder = make_embedder
        self._queue = queue
        self._clock = clock
        self._is_busy = is_busy
        self._is_normalized = is_normalized
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._embedder: Embedder | None = None
        self._wakeup = threading.Event()
        self._stopping = threading.Event()
        self._alone = _pacer(TARGET_ALONE_S)
        self._beside = _pacer(TARGET_BESIDE_STREAMS_S)

    @property
    def is_loaded(self) -> bool:
        """It has a context."""
        return self._embedder is not None

    # -- from other threads -----------------------------------------------------------------------

    def submit(self, job: EmbeddingJob) -> None:
        """Raises ServerOverloaded or ServiceUnavailable."""
        self._queue.submit(job)
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._main, name="skippy-embeddings", daemon=True)
                self._thread.start()
        self._wakeup.set()

    def cancel(self, job: EmbeddingJob) -> None:
        self._queue.cancel(job)

    def refuse(self, error: SkippyError) -> None:
        """Take no newcomers from now on; what nobody has begun with fails with `error`, the rest goes on."""
        _tell(self._queue.refuse(error), error)

    def begin_stop(self) -> None:
        """End within a batch, which is interrupted; everybody who waits gets ServiceUnavailable."""
        error = ServiceUnavailable(UNLOADED_MESSAGE)
        self.refuse(error)
        self._stopping.set()
        _tell(self._queue.clear(), error)
        embedder = self._embedder
        if embedder is not None:
            embedder.interrupt()
        self._wakeup.set()

    def stop(self, timeout_s: float) -> bool:
        """As `begin_stop`, and wait until the context is freed; False where it takes longer."""
        self.begin_stop()
        with self._lock:
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_s)
        if thread.is_alive():
            logger.error("The thread for embeddings did not end within %.0f s", timeout_s)
        return not thread.is_alive()

    # -- the thread itself ------------------------------------------------------------------------

    def _main(self) -> None:
        message = UNLOADED_MESSAGE
        try:
            self._embedder = self._make_embedder()
            logger.info("%r is ready", self._embedder)
            while not self._stopping.is_set():
                self._step(self._embedder)
        except Exception:
            message = CANNOT_EMBED_MESSAGE
            logger.exception("Embeddings cannot be computed")
        finally:
            embedder, self._embedder = self._embedder, None
            if embedder is not None:
                embedder.close()
            with self._lock:
                self._thread = None
                left = self._queue.clear()
            _tell(left, ServiceUnavailable(message))

    def _step(self, embedder: Embedder) -> None:
        self._wakeup.clear()
        is_busy = self._is_busy()
        pacer = self._beside if is_busy else self._alone
        num_tokens = min(pacer.budget(0), embedder.max_batch_tokens)
        work = self._queue.take(
            BatchLimits(num_tokens, embedder.max_batch_tokens, embedder.max_batch_texts, embedder.can_part)
        )
        if work is None:
            self._wakeup.wait(IDLE_WAKEUP_S)
            return
        began_ts = self._clock.monotonic()
        for job in work.jobs:
            job.start(began_ts)
        try:
            rows = self._compute(embedder, work)
        except (RuntimeError, MemoryError):
            logger.exception("A batch of %d tokens could not be embedded", work.num_tokens)
            _tell(self._queue.fail(work), GenerationFailed(FAILED_MESSAGE))
            return
        except InterruptedError:
            _tell(self._queue.fail(work), ServiceUnavailable(UNLOADED_MESSAGE))
            return
        elapsed_s = self._clock.monotonic() - began_ts
        pacer.observe(num_tokens=work.num_tokens, num_prefill_tokens=work.num_tokens, duration_s=elapsed_s)
        self._queue.note_pace(elapsed_s / work.num_tokens)
        for job in self._queue.complete(work, rows):
            job.when_ended(job.rows)
        if is_busy:
            self._stopping.wait(elapsed_s * PAUSE_BESIDE_STREAMS)

    def _compute(self, embedder: Embedder, work: TextBatch | TextPart) -> FloatArray | None:
        if isinstance(work, TextBatch):
            rows: FloatArray | None = embedder.compute(work.token_ids)
        else:
            rows = embedder.compute_part(work.token_ids, begin=work.begin, is_last=work.is_last)
        return rows if rows is None or not self._is_normalized else normalized(rows)

    def __repr__(self) -> str:
        return f"<EmbeddingThread of {self._embedder!r}, {self._queue!r}>"


def normalized(rows: FloatArray) -> FloatArray:
    """Each row (float32) divided by its length; one of zeros stays."""
    lengths = np.sqrt(np.sum(np.square(rows), axis=1, keepdims=True))
    scaled: FloatArray = np.divide(rows, np.where(lengths > 0, lengths, 1), dtype=np.float32)
    return scaled


def _tell(jobs: list[EmbeddingJob], error: SkippyError) -> None:
    for job in jobs:
        job.when_ended(error)


def _pacer(target_s: float) -> PrefillPacer:
    return PrefillPacer(
        target_step_s=target_s,
        min_tokens=MIN_BATCH_TOKENS,
        max_tokens=PREFERRED_BATCH_TOKENS,
        max_beside_decodes=PREFERRED_BATCH_TOKENS,
    )
