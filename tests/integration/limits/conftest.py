"""Real counters in the test database, as several server processes see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from uuid import UUID, uuid4

import orjson
import pytest
from django.db import connection

from accounts.limits.ceiling import Ceiling
from accounts.limits.desk import SharedLimitDesk
from accounts.limits.store import PostgresLimitStore
from inference.domain.clock import SystemClock
from skippy_site.limit_store import make_limit_store


@pytest.fixture
async def make_store(transactional_db: None) -> AsyncIterator[Callable[[], PostgresLimitStore]]:
    """Stores of as many processes as a test likes."""
    made: list[PostgresLimitStore] = []

    def make(process_id: UUID | None = None) -> PostgresLimitStore:
        made.append(make_limit_store(process_id or uuid4()))
        return made[-1]

    yield make
    for store in made:
        await store.close()


@pytest.fixture
def make_desk(make_store: Callable[[], PostgresLimitStore]) -> Callable[[], SharedLimitDesk]:
    def make() -> SharedLimitDesk:
        ceiling = Ceiling(max_requests_per_minute=1_000_000, max_tokens_per_minute=1_000_000)
        return SharedLimitDesk(make_store(), ceiling=ceiling, clock=SystemClock())

    return make


def add_record(*, at: datetime, num_tokens: int, key_id: int = 1, team_id: int | None = None) -> None:
    """One record, in the way in which the ledger writes them."""
    add_records([record_columns(at=at, num_tokens=num_tokens, key_id=key_id, team_id=team_id)])


def record_columns(
    *, at: datetime, num_tokens: int, key_id: int = 1, team_id: int | None = None
) -> dict[str, object]:
    texts = ("username", "key_name", "team_name", "endpoint", "model", "session", "end_user")
    texts += ("finish_reason", "rejection_reason", "error_code")
    numbers = ("num_cached_tokens", "num_reasoning_tokens", "num_injected_tokens", "max_tokens", "total_s")
    return {
        **dict.fromkeys(texts, ""),
        **dict.fromkeys(numbers, 0),
        "id": str(uuid4()),
        "created_at": at.isoformat(),
        "finished_at": at.isoformat(),
        "recorded_at": at.isoformat(),
        "request_id": "r",
        "user_id": 1,
        "key_id": key_id,
        "team_id": team_id,
        "is_stream": False,
        "priority": "normal",
        "was_session_ignored": False,
        "metadata": {},
        "num_input_tokens": num_tokens // 3,
        "num_output_tokens": num_tokens - num_tokens // 3,
        "outcome": "completed",
        "status": 200,
        "hook_decisions": [],
    }


def add_records(rows: list[dict[str, object]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO inference_generationrecord SELECT * FROM "
            "jsonb_populate_recordset(NULL::inference_generationrecord, %s::text::jsonb) "
            "ON CONFLICT (id, created_at) DO NOTHING",
            [orjson.dumps(rows).decode()],
        )
