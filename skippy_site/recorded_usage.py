"""What records say of token budgets: the sums that a new counter begins with, and that any counter can
be made anew from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

# The other half, which adds what comes in later, is skippy_site/migrations/0001_counted_budgets.py.
_RECOUNT = """
UPDATE accounts_limitcounter AS c SET
    day_start = p.day, day_tokens = u.day_tokens,
    week_start = p.week, week_tokens = u.week_tokens,
    month_start = p.month, month_tokens = u.month_tokens
FROM accounts_limitcounter AS old
CROSS JOIN (
    SELECT date_trunc('day', at)::date AS day, date_trunc('week', at)::date AS week,
        date_trunc('month', at)::date AS month
    FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS at) AS now
) AS p
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(tokens) FILTER (WHERE at >= p.day), 0) AS day_tokens,
        coalesce(sum(tokens) FILTER (WHERE at >= p.week), 0) AS week_tokens,
        coalesce(sum(tokens) FILTER (WHERE at >= p.month), 0) AS month_tokens
    FROM (
        SELECT num_input_tokens + num_output_tokens AS tokens, created_at AT TIME ZONE 'UTC' AS at
        FROM inference_generationrecord AS r
        WHERE r.{column} = old.owner_id
            AND r.created_at >= least(p.week, p.month)::timestamp AT TIME ZONE 'UTC'
    ) AS r
) AS u
WHERE c.id = old.id AND old.scope = %s AND old.id = ANY(%s)
"""
_COLUMNS = {"key": "key_id", "user": "user_id", "team": "team_id"}


class RecordedUsage:
    """Implements accounts.limits.store.UsageSource."""

    async def recount(self, connection: psycopg.AsyncConnection[Any], counter_ids: Sequence[int]) -> None:
        for scope, column in _COLUMNS.items():
            statement = _RECOUNT.format(column=column).encode()
            await connection.execute(statement, (scope, list(counter_ids)))
