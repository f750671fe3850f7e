"""What is told of requests that have not ended yet: who asked for what, and how far it is. No text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from uuid import UUID

from inference.domain.outcomes import RequestSummary


class LivePhase(Enum):
    """How far a request is on its way."""

    PREPARING = "preparing"
    """Its body is read, its model waited for, its prompt made; it has not asked for a lane yet."""
    WAITING = "waiting"
    """For its session's turn, or for a lane."""
    PREFILL = "prefill"
    """It has a lane, and nothing of its answer is there."""
    DECODING = "decoding"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRequestStatus:
    """One request at one instant. `phase_s` is the time that it has been in its phase so far, `total_s`
    that since its arrival, both in seconds. Its prompt counts once it has a lane."""

    record_id: UUID
    request_id: str
    created_at: datetime
    endpoint: str
    model: str
    user_id: int
    username: str
    key_id: int
    key_name: str
    team_id: int | None
    team_name: str
    is_stream: bool
    priority: str
    phase: LivePhase
    phase_s: float
    total_s: float
    max_tokens: int
    num_input_tokens: int
    num_output_tokens: int

    @classmethod
    def of(cls, summary: RequestSummary) -> LiveRequestStatus:
        """From the record that it would have if it were interrupted now."""
        phase, since_s = _phase(summary)
        usage = summary.usage
        return cls(
            record_id=summary.record_id,
            request_id=summary.request_id,
            created_at=summary.created_at,
            endpoint=summary.endpoint,
            model=summary.model,
            user_id=summary.user_id,
            username=summary.username,
            key_id=summary.key_id,
            key_name=summary.key_name,
            team_id=summary.team_id,
            team_name=summary.team_name,
            is_stream=summary.is_stream,
            priority=summary.priority.value,
            phase=phase,
            phase_s=max(0.0, summary.total_s - since_s),
            total_s=summary.total_s,
            max_tokens=summary.max_tokens,
            num_input_tokens=0 if usage is None else usage.prompt_tokens,
            num_output_tokens=0 if usage is None else usage.completion_tokens,
        )


def _phase(summary: RequestSummary) -> tuple[LivePhase, float]:
    """The phase, and when it began in seconds from the arrival."""
    if summary.first_token_s is not None:
        return LivePhase.DECODING, summary.first_token_s
    if summary.started_s is not None:
        return LivePhase.PREFILL, summary.started_s
    if summary.submitted_s is not None:
        return LivePhase.WAITING, summary.submitted_s
    return LivePhase.PREPARING, 0.0
