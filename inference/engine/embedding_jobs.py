"""What waits to be embedded, and what is computed of it at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inference.domain.embeddings import EmbeddingRequest
from inference.domain.errors import SkippyError

FloatArray = NDArray[np.float32]


class EmbeddingJob:
    """One request on its way. Belongs to the queue, which guards it; its owner only hands it back.

    `when_started` is called once, by the thread that computes, with the instant (monotonic seconds);
    `when_ended` once, on whichever thread ends it: with its rows (float32, one for each text), or with what
    kept them from being made. It is not called after a cancellation.
    """

    __slots__ = (
        "_rows",
        "is_ended",
        "num_computed",
        "num_taken",
        "num_tokens_left",
        "request",
        "started_ts",
        "when_ended",
        "when_started",
    )

    def __init__(
        self,
        request: EmbeddingRequest,
        *,
        when_started: Callable[[float], None],
        when_ended: Callable[[FloatArray | SkippyError], None],
    ) -> None:
        self.request = request
        self.when_started = when_started
        self.started_ts: float | None = None
        self.when_ended = when_ended
        self.num_taken = 0
        """Texts that are being computed, or were."""
        self.num_computed = 0
        self.num_tokens_left = request.num_tokens
        """Of texts that are not computed."""
        self.is_ended = False
        self._rows: FloatArray | None = None

    def start(self, at_ts: float) -> None:
        """Some of its texts are computed from now on."""
        if self.started_ts is None:
            self.started_ts = at_ts
            self.when_started(at_ts)

    @property
    def num_texts(self) -> int:
        return len(self.request.token_ids)

    @property
    def next_text(self) -> tuple[int, ...]:
        return self.request.token_ids[self.num_taken]

    @property
    def has_more(self) -> bool:
        """Texts that nobody has begun with."""
        return not self.is_ended and self.num_taken < self.num_texts

    @property
    def is_complete(self) -> bool:
        return self.num_computed == self.num_texts

    def keep(self, index: int, row: FloatArray) -> None:
        if self._rows is None:
            self._rows = np.empty((self.num_texts, len(row)), dtype=np.float32)
        self._rows[index] = row
        self.num_computed += 1
        self.num_tokens_left -= len(self.request.token_ids[index])

    @property
    def rows(self) -> FloatArray:
        assert self._rows is not None and self.is_complete
        return self._rows

    def __repr__(self) -> str:
        return f"<EmbeddingJob {self.request.request_id}, {self.num_computed} of {self.num_texts} texts>"


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """Whole texts that are computed together: of which job, and the how manieth of it."""

    items: tuple[tuple[EmbeddingJob, int], ...]

    @property
    def token_ids(self) -> list[tuple[int, ...]]:
        return [job.request.token_ids[index] for job, index in self.items]

    @property
    def num_tokens(self) -> int:
        return sum([len(text) for text in self.token_ids])

    @property
    def jobs(self) -> list[EmbeddingJob]:
        return list(dict.fromkeys(job for job, _ in self.items))


@dataclass(frozen=True, slots=True, eq=False)
class TextPart:
    """Tokens [begin, end) of a text that is longer than a batch."""

    job: EmbeddingJob
    index: int
    begin: int
    end: int

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.job.request.token_ids[self.index][self.begin : self.end]

    @property
    def num_tokens(self) -> int:
        return self.end - self.begin

    @property
    def is_last(self) -> bool:
        return self.end == len(self.job.request.token_ids[self.index])

    @property
    def jobs(self) -> list[EmbeddingJob]:
        return [self.job]


class Embedder(Protocol):
    """Computes texts; made, used and closed by one thread, but for `interrupt`. See LlamaEmbedder."""

    @property
    def max_batch_tokens(self) -> int: ...

    @property
    def max_batch_texts(self) -> int: ...

    @property
    def can_part(self) -> bool: ...

    def compute(self, texts: list[tuple[int, ...]]) -> FloatArray: ...

    def compute_part(self, part: tuple[int, ...], *, begin: int, is_last: bool) -> FloatArray | None: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Of what is taken at once: `num_tokens` is what the time allows, the others what there is room for."""

    num_tokens: int
    max_tokens: int
    max_texts: int
    can_part: bool
