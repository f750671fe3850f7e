"""The border between those who ask for a place, those who grant it, and the engine that uses it.

There is one queue: a waiting submission is the engine's waiting list. The caller's side (the
event loop) submits and withdraws; the engine thread, first thing in each step and only while it
has a free lane, elects. What was granted is released by the engine when the work has really
ended, never by the HTTP task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from inference.domain.backend import HoldReason, Newcomer
from inference.domain.cache_affinity import CacheAffinity
from inference.domain.errors import ServerOverloaded, SkippyError
from inference.domain.requests import GenerationRequest
from inference.domain.timings import Timings


class EventSink(Protocol):
    """Where a request's events go. Opaque to admission; the engine hands it to its outbox."""


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """A request and the place where its events go. Compared by identity.

    `deadline_ts` is the monotonic instant by which the caller wants a lane, None where it waits until
    it cancels. Admission refuses what it predicts to come too late, but the deadline itself is kept by
    the caller, who withdraws.
    `holds` is why it stands still, already while it waits; only the engine thread changes it.
    """

    request: GenerationRequest
    sink: EventSink
    submitted_ts: float
    deadline_ts: float | None = None
    holds: set[HoldReason] = field(default_factory=set)


class Ticket(Protocol):
    """A place in the queue, held by the caller. What the caller notes on it is how admission learns;
    each note is effective once, and none before the submission was elected."""

    def withdraw(self) -> bool:
        """Leave the queue. False where the engine has already taken the submission (or it was
        withdrawn before): then the engine must be told to drop the sequence."""
        ...

    def note_started(self) -> None:
        """The caller has heard that it was admitted."""
        ...

    def note_completed(self, timings: Timings) -> None:
        """The answer is complete, and this is what it took."""
        ...

    def note_failed(self) -> None:
        """The engine could not go on with it. A request that was cancelled is neither."""
        ...


class Grant(Protocol):
    """A submission that may start, with its token reservation; held by the engine."""

    @property
    def submission(self) -> Submission: ...

    def release(self, *, num_output_tokens: int = 0) -> None:
        """Give back what was reserved, and say how many tokens were generated for it. Effective
        once; later calls do nothing."""
        ...


class AdmissionDesk(Protocol):
    """The caller's side. Nothing waits here; every method may be called on the event loop."""

    @property
    def max_requests(self) -> int:
        """Requests that can run and wait at the same time."""
        ...

    def submit(self, submission: Submission) -> Ticket:
        """Queue it, or raise, in this order: ServiceUnavailable (closed), ContextLengthExceeded (can
        never fit), ServerOverloaded (the queue is full, or the wait is predicted to last beyond the
        deadline). `reason` of the error tells these apart, `retry_after_s` follows from the
        prediction."""
        ...

    def refuse_early(self, newcomer: Newcomer) -> None:
        """Raise what `submit` would raise for want of room, before the prompt was rendered or
        tokenized; return where it would not, or cannot be known yet.

        No prompt has more tokens than `num_prompt_bytes`, so one whose bytes fit the pool is not an
        impossible one, for which the answer would be another.
        """
        ...

    def reject_overdue(self, *, request_id: str, user_id: int, allowed_s: float) -> ServerOverloaded:
        """The error for a request that had no lane within the `allowed_s` seconds that it had: its
        session was busy, or it was withdrawn from the queue."""
        ...


class AdmissionSource(Protocol):
    """The engine thread's side."""

    def elect(self, affinity: CacheAffinity) -> Grant | None:
        """The next submission that may start, or None. Called with a lane in hand; `affinity` is what
        the engine has computed already."""
        ...

    def close(self, error: SkippyError) -> list[Submission]:
        """Refuse newcomers with `error` from now on; returns everything that was waiting, for the
        caller to answer."""
        ...
