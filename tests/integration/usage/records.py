"""Records as the ledger writes them, for tests that add them up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from inference.domain.record_ids import new_record_id
from inference.models import (
    EventBucket,
    GenerationRecord,
    SpanLatency,
    SpanUsage,
    StoredEvent,
    TeamLatencyBucket,
    TeamUsageBucket,
    UsageBucket,
    UsageDay,
    UsageMonth,
    UsagePending,
)

AT = datetime(2026, 11, 29, 10, 20, tzinfo=UTC)


def record(**fields: Any) -> GenerationRecord:
    """One that is not saved: 10 + 5 tokens, completed, at 10:20 UTC, but for `fields`."""
    created_at = fields.setdefault("created_at", AT)
    return GenerationRecord(
        **{
            "id": new_record_id(created_at),
            "finished_at": created_at,
            "request_id": "r",
            "user_id": 1,
            "username": "ann",
            "key_id": 1,
            "key_name": "laptop",
            "team_id": None,
            "endpoint": "chat.completions",
            "model": "tiny",
            "is_stream": False,
            "priority": "normal",
            "was_session_ignored": False,
            "max_tokens": 16,
            "num_input_tokens": 10,
            "num_cached_tokens": 4,
            "num_output_tokens": 5,
            "num_reasoning_tokens": 2,
            "num_injected_tokens": 1,
            "queue_s": 0.01,
            "first_token_s": 0.1,
            "time_per_token_s": 0.02,
            "total_s": 0.5,
            "outcome": "completed",
            "status": 200,
            **fields,
        }
    )


def save(*records: GenerationRecord) -> None:
    """As the ledger commits them: many at once."""
    GenerationRecord.objects.bulk_create(records)


def forget_all() -> None:
    """No record, no event, and nothing that was added up of them, also of what the last run left."""
    for model in (
        GenerationRecord,
        UsagePending,
        UsageBucket,
        TeamLatencyBucket,
        TeamUsageBucket,
        UsageDay,
        UsageMonth,
        SpanUsage,
        SpanLatency,
        StoredEvent,
        EventBucket,
    ):
        model.objects.all().delete()
