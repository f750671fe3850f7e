"""Every test of usage begins without records, also those that the last run left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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


@pytest.fixture(autouse=True)
def empty(transactional_db: None) -> Iterator[None]:
    """Nothing is left for others."""
    _clear()
    yield
    _clear()


def _clear() -> None:
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
