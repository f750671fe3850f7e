"""Summaries of requests as telemetry is given them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from inference.domain.events import FinishReason, Usage
from inference.domain.outcomes import Outcome, RequestSummary

_COMPLETED = RequestSummary(
    record_id=UUID(int=1),
    created_at=datetime(2026, 11, 29, tzinfo=UTC),
    request_id="r-1",
    endpoint="chat.completions",
    model="tiny",
    user_id=3,
    key_id=4,
    is_stream=True,
    outcome=Outcome.COMPLETED,
    status=200,
    error_code=None,
    rejection_reason=None,
    finish_reason=FinishReason.STOP,
    usage=Usage(10, 5, 4),
    submitted_s=0.1,
    started_s=0.5,
    first_token_s=0.7,
    last_token_s=1.4,
    total_s=1.5,
)


def summary(**changes: Any) -> RequestSummary:
    """A streamed chat request that went well, but for `changes`."""
    return replace(_COMPLETED, **changes)
