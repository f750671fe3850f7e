"""The store of limits on this project's database."""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from accounts.limits.store import PostgresLimitStore
from skippy_site.recorded_usage import RecordedUsage


def make_limit_store(process_id: UUID) -> PostgresLimitStore:
    """Connects when it is first asked."""
    parameters = connection.get_connection_params()
    for ours in ("pool", "context", "cursor_factory", "prepare_threshold"):
        parameters.pop(ours, None)  # Django's ways of using psycopg, not the database's address
    return PostgresLimitStore(parameters, process_id=process_id, usage=RecordedUsage())
