"""What an engine offers beside generating: texts as vectors, and how well documents answer a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from inference.domain.priority import PriorityClass


@dataclass(frozen=True, slots=True)
class PairMarks:
    """The token ids that a ranking model wants before a query, between it and its document, and behind that,
    where its file has no template for it (`chat_templates["rerank"]`)."""

    begin: tuple[int, ...] = ()
    middle: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingDescription:
    """`width` values for each text, of at most `max_tokens` tokens. `can_rank`: the model scores pairs of
    query and document, and its vectors mean nothing."""

    width: int
    max_tokens: int
    can_rank: bool = False
    pair_marks: PairMarks = PairMarks()


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts as token ids, none of them empty or longer than the backend's `max_tokens`. Users of a class
    of `priority` take turns."""

    request_id: str
    token_ids: tuple[tuple[int, ...], ...]
    user_id: int = 0
    priority: PriorityClass = PriorityClass.NORMAL

    @property
    def num_tokens(self) -> int:
        """Of all texts together."""
        return sum([len(text) for text in self.token_ids])


@dataclass(frozen=True, slots=True)
class EmbeddingStatistics:
    """A snapshot: `num_jobs` requests wait or are being computed, with so many texts and tokens left.
    `num_computing_tokens` are those of the batch that is under way, `token_s` what one took last (seconds,
    None until that was measured); `total_…` only grow, `total_begun` with each batch that is begun with."""

    num_jobs: int = 0
    num_texts: int = 0
    num_tokens: int = 0
    total_texts: int = 0
    total_tokens: int = 0
    total_batches: int = 0
    total_begun: int = 0
    num_computing_tokens: int = 0
    token_s: float | None = None


class EmbeddingMeter(Protocol):
    """Hears, on the event loop, how far a request has got. May be silent for one that never began."""

    def started(self, at_ts: float) -> None:
        """Its first text is being computed since then (monotonic seconds)."""
        ...

    def ended(self, num_tokens: int) -> None:
        """It is over, whichever way, and of so many tokens the texts were computed."""
        ...


class EmbeddingBackend(Protocol):
    """Computes vectors on a thread of its own. Its context is made at the first request, and freed with the
    model."""

    @property
    def description(self) -> EmbeddingDescription:
        """Known as soon as the model is loaded."""
        ...

    async def embed(self, request: EmbeddingRequest, meter: EmbeddingMeter) -> Any:
        """float32 (number of texts, width), L2-normalised rows; (number of texts, 1) raw scores where the
        model ranks. Raises ServerOverloaded, ServiceUnavailable or GenerationFailed. A cancelled call
        computes no more of its texts."""
        ...

    def statistics(self) -> EmbeddingStatistics:
        """May be asked on any thread."""
        ...
