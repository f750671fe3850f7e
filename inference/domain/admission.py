"""The border between those who ask for a place, those who grant it, and the engine that uses it.

There is one queue: a waiting submission is the engine's waiting list. The caller's side (the
event loop) submits and withdraws; the engine thread, first thing in each step and only while it
has a free lane, elects. What was granted is released by the engine when the work has really
ended, never by the HTTP task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from inference.domain.backend import HoldReason
from inference.domain.errors import SkippyError
from inference.domain.requests import GenerationRequest


class EventSink(Protocol):
    """Where a request's events go. Opaque to admission; the engine hands it to its outbox."""


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """A request and the place where its events go. Compared by identity.

    `holds` is why it stands still, already while it waits; only the engine thread touches it.
    """

    request: GenerationRequest
    sink: EventSink
    submitted_ts: float
    holds: set[HoldReason] = field(default_factory=set)


class Ticket(Protocol):
    """A place in the queue, held by the caller."""

    def withdraw(self) -> bool:
        """Leave the queue. False where the engine has already taken the submission (or it was
        withdrawn before): then the engine must be told to drop the sequence."""
        ...


class Grant(Protocol):
    """A submission that may start, with its token reservation; held by the engine."""

    @property
    def submission(self) -> Submission: ...

    def release(self) -> None:
        """Give back what was reserved. Effective once; later calls do nothing."""
        ...


class AdmissionDesk(Protocol):
    """The caller's side."""

    def submit(self, submission: Submission) -> Ticket:
        """Queue it, or raise ServerOverloaded, ContextLengthExceeded or ServiceUnavailable."""
        ...


class AdmissionSource(Protocol):
    """The engine thread's side."""

    def elect(self) -> Grant | None:
        """The next submission that fits the free cells, or None. Called with a lane in hand."""
        ...

    def close(self, error: SkippyError) -> list[Submission]:
        """Refuse newcomers with `error` from now on; returns everything that was waiting, for the
        caller to answer."""
        ...
