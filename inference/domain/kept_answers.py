"""Answers that are kept after they were sent: for repetitions of a request, and for keys that keep text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """A request that its caller named by Idempotency-Key. Digests are SHA-256; `body_digest` covers the
    endpoint too. It is taken for dead after `lease_s` from `created_at` without an end."""

    key_id: int
    name_digest: bytes
    body_digest: bytes
    request_id: str
    record_id: UUID
    created_at: datetime
    lease_s: float


@dataclass(frozen=True, slots=True)
class SentAnswer:
    """An answer as it went out: bytes of a whole body or of all frames of a stream, keep-alives left out."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer of the Responses API that can be asked for again, and gone on from: its id, that of the
    response that it went on from ("": none), and the response object as JSON."""

    id: str
    previous_id: str
    object: str


@dataclass(frozen=True, slots=True)
class KeptText:
    """What was asked and answered, for a key that keeps it. The answer of a `stored` response is its
    object."""

    record_id: UUID
    created_at: datetime
    user_id: int
    key_id: int
    request: str
    answer: str
    stored: StoredResponse | None = None


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """A stored response with the body of the request that it answered."""

    stored: StoredResponse
    request: str

    @property
    def num_chars(self) -> int:
        return len(self.stored.object) + len(self.request)


class NamedRequests(Protocol):
    """Sees to it that of all requests of one name one runs. All methods raise ServiceUnavailable where the
    database cannot be asked."""

    async def begin(self, request: NamedRequest) -> SentAnswer | None:
        """None: it is the first one, and runs. Otherwise the first one's answer. Raises InvalidRequest where
        the first one had another body, Conflict where it still runs, or has no answer that was kept."""
        ...

    async def finish(self, request: NamedRequest, answer: SentAnswer | None) -> None:
        """It has completed; `answer` None where it is not kept."""
        ...

    async def abandon(self, request: NamedRequest) -> None:
        """It has not completed: the next one of its name may run."""
        ...


class KeptTexts(Protocol):
    async def keep(self, text: KeptText) -> None:
        """Raises ServiceUnavailable where the database cannot be asked."""
        ...


class KeptResponses(Protocol):
    """Stored responses, each for the key alone that it was made with. All methods raise NotFound where
    there is no such response for the key, and ServiceUnavailable where the database cannot be asked."""

    async def conversation(self, *, response_id: str, key_id: int) -> Sequence[KeptResponse]:
        """The response and all that it went on from, the first one first. Raises ContextLengthExceeded
        where they are more than anything could be made of."""
        ...

    async def response(self, *, response_id: str, key_id: int) -> KeptResponse: ...

    async def forget(self, *, response_id: str, key_id: int) -> None:
        """Delete it, with what was asked. What goes on from it loses its beginning."""
        ...


@dataclass(frozen=True, slots=True)
class AnswerKeeping:
    """Where answers are kept."""

    names: NamedRequests
    texts: KeptTexts
    responses: KeptResponses
