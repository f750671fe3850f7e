"""What an engine must offer to the services: in-process llama.cpp now, a remote engine later."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from inference.domain.errors import ServerOverloaded
from inference.domain.events import Event, TokenBatch
from inference.domain.priority import PriorityClass
from inference.domain.requests import GenerationRequest
from inference.domain.timings import Timings


class HoldReason(Enum):
    """Why a sequence stands still: its reader is behind, or a hook thinks about how it goes on."""

    READER = "reader"
    HOOK = "hook"


class GenerationHandle(Protocol):
    """One submitted request. Its owner iterates it once and always ends with `cancel()`.

    All methods may be called at any time and any number of times, from the event loop; after the
    ending they do nothing. `cancel()` withdraws the request from the queue or frees its lane within
    one engine step.

    `hold()` makes its sequence stand still from the next step on, for as long as there is at least
    one reason to: no prefill, no decode, lane and cells kept, all others go on. What the step that is
    running draws still comes. A request that waits in the queue keeps its turn; it then starts (and
    says so) and stands still. `resume()` takes one reason away. The engine knows no time limit for
    this: whoever holds sees to it that it ends.

    `inject()` puts tokens into a sequence that stands still for `Signals`, before it is resumed: the token
    that these came with is thrown away, and the answer goes on behind the last of those put in. May be
    called again before `resume(HoldReason.HOOK)`; they follow each other. Each call is answered by one
    Injected, unless the request has not started or has ended. They take room in the context, not of
    `max_tokens`; where both do not fit, the answer ends earlier.

    Whoever has read the whole answer tells with `note_completed` what it took, which is how admission
    learns to predict; time in which the sequence was held for its reader is not in it.
    """

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def take_at_once(self, take: Callable[[TokenBatch], bool]) -> None:
        """Offer tokens to `take`, on the event loop, while their owner waits for them anyway: what it
        takes (and says so) is not iterated. A backend may leave this and have all iterated."""
        ...

    def cancel(self) -> None: ...

    def note_completed(self, timings: Timings) -> None: ...

    def when_released(self, call: Callable[[], None]) -> None:
        """Have `call` called, once and on the event loop, when the request neither waits nor holds
        anything in the engine: after its ending, or a step after it was cancelled. At most one call."""
        ...

    def hold(self, reason: HoldReason) -> None: ...

    def resume(self, reason: HoldReason) -> None: ...

    def inject(self, token_ids: tuple[int, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class Newcomer:
    """What is known of a request before its prompt is rendered and tokenized. `deadline_ts` is the
    monotonic instant by which the caller wants a lane."""

    request_id: str
    user_id: int
    priority: PriorityClass
    num_prompt_bytes: int
    deadline_ts: float | None = None


class GenerationBackend(Protocol):
    """Takes requests and generates. `submit` never waits: it returns a handle or raises.

    Raises ContextLengthExceeded (can never fit), ServerOverloaded (the queue is full, or the wait is
    predicted to last beyond `deadline_ts`, the monotonic instant by which the caller wants a lane) or
    ServiceUnavailable (loading, draining, dead). The caller gives up by itself when the deadline has
    come: it cancels, and answers with `reject_overdue`.
    """

    @property
    def max_requests(self) -> int:
        """Requests that can run and wait at the same time: so many at once are never taken with one more."""
        ...

    def submit(self, request: GenerationRequest, *, deadline_ts: float | None = None) -> GenerationHandle: ...

    def refuse_early(self, newcomer: Newcomer) -> None:
        """Raise what `submit` would raise for want of room, before anybody has tokenized the prompt;
        return where that cannot be said yet. See AdmissionDesk."""
        ...

    def reject_overdue(self, *, request_id: str, user_id: int, allowed_s: float) -> ServerOverloaded:
        """The error for a request that had no lane within the `allowed_s` seconds it had."""
        ...
