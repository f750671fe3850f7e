"""A record as the table has it, in the one form that journal and database both take: a JSON object.

The keys are the table's columns, so that Postgres turns many of them into rows by itself
(`jsonb_populate_recordset`) and a journal can be read by eye.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

import orjson

from inference.domain.outcomes import RequestSummary

COLUMNS: Final = (
    "id",
    "created_at",
    "finished_at",
    "request_id",
    "user_id",
    "username",
    "key_id",
    "key_name",
    "team_id",
    "team_name",
    "endpoint",
    "model",
    "is_stream",
    "priority",
    "session",
    "was_session_ignored",
    "end_user",
    "metadata",
    "cache_retention",
    "max_tokens",
    "num_input_tokens",
    "num_cached_tokens",
    "num_output_tokens",
    "num_reasoning_tokens",
    "num_injected_tokens",
    "queue_s",
    "first_token_s",
    "time_per_token_s",
    "total_s",
    "outcome",
    "status",
    "finish_reason",
    "rejection_reason",
    "error_code",
    "hook_decisions",
)
# As wide as the columns are; what a caller may choose is cut, never a reason to lose its record.
_MAX_MODEL_CHARS = 200
MAX_LABEL_CHARS = 512


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One row: its id, and the JSON object that has all of it."""

    record_id: UUID
    json: bytes

    @classmethod
    def of(cls, summary: RequestSummary) -> RecordRow:
        return cls(summary.record_id, orjson.dumps(_columns(summary)))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RecordRow:
        """Raises KeyError or ValueError where it has no id."""
        return cls(UUID(value["id"]), orjson.dumps(value))


@dataclass(frozen=True, slots=True)
class Progress:
    """What changes of a request while it runs; the fields are columns."""

    record_id: UUID
    num_input_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_reasoning_tokens: int
    num_injected_tokens: int
    queue_s: float | None
    first_token_s: float | None
    total_s: float
    finished_at: str

    @classmethod
    def of(cls, summary: RequestSummary) -> Progress:
        usage = summary.usage
        return cls(
            record_id=summary.record_id,
            num_input_tokens=usage.prompt_tokens if usage else 0,
            num_cached_tokens=usage.cached_tokens if usage else 0,
            num_output_tokens=usage.completion_tokens if usage else 0,
            num_reasoning_tokens=usage.reasoning_tokens if usage else 0,
            num_injected_tokens=usage.injected_tokens if usage else 0,
            queue_s=summary.queue_s,
            first_token_s=summary.first_token_s,
            total_s=summary.total_s,
            finished_at=summary.finished_at.isoformat(),
        )


PROGRESS_COLUMNS: Final = tuple(name for name in Progress.__slots__ if name != "record_id")


def _columns(summary: RequestSummary) -> dict[str, Any]:
    """For orjson, which writes ids and instants far faster than they can be made text here."""
    usage = summary.usage
    return {
        "id": summary.record_id,
        "created_at": summary.created_at,
        "finished_at": summary.finished_at,
        "request_id": summary.request_id,
        "user_id": summary.user_id,
        "username": summary.username,
        "key_id": summary.key_id,
        "key_name": summary.key_name,
        "team_id": summary.team_id,
        "team_name": summary.team_name,
        "endpoint": summary.endpoint,
        "model": _text(summary.model, _MAX_MODEL_CHARS),
        "is_stream": summary.is_stream,
        "priority": summary.priority.value,
        "session": "" if summary.session is None else f"{summary.session:016x}",
        "was_session_ignored": summary.was_session_ignored,
        "end_user": _text(summary.end_user, MAX_LABEL_CHARS),
        "metadata": {
            _text(name, MAX_LABEL_CHARS): _text(value, MAX_LABEL_CHARS)
            for name, value in summary.metadata.items()
        },
        "cache_retention": summary.cache_retention.value or None,
        "max_tokens": summary.max_tokens,
        "num_input_tokens": usage.prompt_tokens if usage else 0,
        "num_cached_tokens": usage.cached_tokens if usage else 0,
        "num_output_tokens": usage.completion_tokens if usage else 0,
        "num_reasoning_tokens": usage.reasoning_tokens if usage else 0,
        "num_injected_tokens": usage.injected_tokens if usage else 0,
        "queue_s": summary.queue_s,
        "first_token_s": summary.first_token_s,
        "time_per_token_s": summary.time_per_token_s,
        "total_s": summary.total_s,
        "outcome": summary.outcome.value,
        "status": summary.status,
        "finish_reason": summary.finish_reason.value if summary.finish_reason else "",
        "rejection_reason": summary.rejection_reason.value if summary.rejection_reason else "",
        "error_code": summary.error_code or "",
        "hook_decisions": [asdict(decision) for decision in summary.hook_decisions],
    }


def _text(value: str, max_chars: int) -> str:
    """Text that Postgres takes: no NUL, no half of a surrogate pair, not wider than its column."""
    cleaned = value[:max_chars].replace("\0", "\ufffd")
    return cleaned.encode("utf-8", "replace").decode("utf-8")
