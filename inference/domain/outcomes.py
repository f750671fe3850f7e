"""How a request ended, and the summary that is recorded of it: exactly one for each request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from inference.domain.admission_events import AdmissionEvent
from inference.domain.events import FinishReason, Usage
from inference.domain.phases import PhaseEvent
from inference.domain.rejection_reason import RejectionReason


class Outcome(Enum):
    """The terminal outcomes; a request has exactly one."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    """Ended from our side, and not by the engine: an operator wished it, or the server could not wait
    any longer with its stop."""
    CLIENT_DISCONNECT = "client_disconnect"
    """The client went away, or stopped reading; `error_code` says which."""
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    """The request's own time limit ran out."""
    BACKEND_ERROR = "backend_error"


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """What is kept of one generating request. Holds no prompt and no answer text.

    `error_code` is set where the outcome is not COMPLETED, `rejection_reason` where it is admission
    that refused; times are seconds from the request's arrival, None where that point was never
    reached. `session` is the trusted session's key (never the id that the client sent);
    `was_session_ignored` says that it named one without the trust.
    """

    request_id: str
    endpoint: str
    model: str
    user_id: int
    key_id: int
    is_stream: bool
    outcome: Outcome
    status: int
    error_code: str | None
    rejection_reason: RejectionReason | None
    finish_reason: FinishReason | None
    usage: Usage | None
    started_s: float | None
    first_token_s: float | None
    total_s: float
    session: int | None = None
    was_session_ignored: bool = False


class Recorder(Protocol):
    """Where summaries and events go. Neither method waits; `record` is called on the event loop,
    `record_event` from any thread."""

    def record(self, summary: RequestSummary) -> None: ...

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None: ...
