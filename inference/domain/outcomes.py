"""How a request ended, and the summary that is recorded of it: exactly one for each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol
from uuid import UUID

from inference.domain.admission_events import AdmissionEvent
from inference.domain.cache_retention import CacheRetention
from inference.domain.events import FinishReason, Usage
from inference.domain.phases import PhaseEvent
from inference.domain.priority import PriorityClass
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
    INTERRUPTED = "interrupted"
    """The process ended while it ran; what is known of it is its last progress."""


@dataclass(frozen=True, slots=True)
class HookDecision:
    """What one policy decided about a request at one point of it, in the words of hooks/contracts. `policy`
    is its name as it was then; `actions` are the kinds of what it did, `result` whether it was done. `choice`
    is the answer's index where the point is one of a generation."""

    policy: str
    point: str
    actions: tuple[str, ...]
    result: str
    reason: str = ""
    policy_id: int = 0
    choice: int | None = None
    elapsed_ms: float = 0.0
    injected_tokens: int = 0
    discarded_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSummary:
    """What is kept of one generating request. Holds no prompt and no answer text.

    `record_id` is ours and unique, `request_id` may be the caller's. Names are as they were at
    `created_at` (aware): users, keys and teams can be renamed and removed, records stay.
    `error_code` is set where the outcome is not COMPLETED, `rejection_reason` where it is admission
    that refused; times are seconds from the request's arrival, None where that point was never
    reached. `max_tokens` is what could be generated at most, 0 where that was never known. `session` is
    the trusted session's key (never the id that the client sent); `was_session_ignored` says that it
    named one without the trust. `end_user` and `metadata` are the body's fields `user` and `metadata`.
    """

    record_id: UUID
    created_at: datetime
    request_id: str
    endpoint: str
    model: str
    user_id: int
    username: str = ""
    key_id: int
    key_name: str = ""
    team_id: int | None = None
    team_name: str = ""
    is_stream: bool
    outcome: Outcome
    status: int
    error_code: str | None = None
    rejection_reason: RejectionReason | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    max_tokens: int = 0
    submitted_s: float | None = None
    started_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    total_s: float = 0.0
    priority: PriorityClass = PriorityClass.NORMAL
    session: int | None = None
    was_session_ignored: bool = False
    end_user: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    cache_retention: CacheRetention = CacheRetention.UNSAID
    hook_decisions: tuple[HookDecision, ...] = ()

    @property
    def finished_at(self) -> datetime:
        return self.created_at + timedelta(seconds=self.total_s)

    @property
    def queue_s(self) -> float | None:
        """From the submission to its lane."""
        if self.submitted_s is None or self.started_s is None:
            return None
        return max(0.0, self.started_s - self.submitted_s)

    @property
    def time_per_token_s(self) -> float | None:
        """Mean time from one token of the answer to the next; None for answers of less than two."""
        if self.first_token_s is None or self.last_token_s is None or self.usage is None:
            return None
        num_intervals = self.usage.completion_tokens - 1
        return (self.last_token_s - self.first_token_s) / num_intervals if num_intervals > 0 else None


class Recorder(Protocol):
    """Where summaries and events go for those who watch; may drop. Neither method waits; `record` is
    called on the event loop, `record_event` from any thread."""

    def record(self, summary: RequestSummary) -> None: ...

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None: ...
