"""What is worth an alert right now, judged from usage, records and the server's own answer."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from django.db import connection
from django.db.models import Count

from accounts.budgets import BudgetHolder, budget_holders
from accounts.contracts import BudgetPeriod
from inference.domain.outcomes import Outcome
from inference.models import GenerationRecord

ERROR_WINDOW = timedelta(minutes=10)
MIN_REQUESTS = 20
"""Fewer requests than this say nothing about a rate."""
PROBE_LIMIT_S = 5.0
_ERRORS = (Outcome.BACKEND_ERROR.value, Outcome.TIMED_OUT.value, Outcome.INTERRUPTED.value)


class AlertKind(Enum):
    BUDGET = "budget"
    ERROR_RATE = "error_rate"
    ENGINE_DOWN = "engine_down"


@dataclass(frozen=True, slots=True)
class AlertSignal:
    """One thing that is so now. `subject` tells it from others of its kind and stays the same while it
    lasts; `message` is a sentence for people, without secrets."""

    kind: AlertKind
    subject: str
    message: str


def budget_signals(*, now: datetime) -> Iterator[AlertSignal]:
    """Keys, users and teams that have used more of a token budget than `budget_alert_percent` of it."""
    holders = budget_holders()
    for period in BudgetPeriod:
        start = period_start(period, now)
        budgeted = [holder for holder in holders if holder.limits.budget(period)]
        used = _tokens_used(budgeted, start)
        for holder in budgeted:
            budget = holder.limits.budget(period) or 0
            num_used = used.get((holder.column, holder.id), 0)
            if num_used * 100 >= budget * holder.limits.budget_alert_percent:
                yield AlertSignal(
                    AlertKind.BUDGET,
                    f"{holder.kind} {holder.id}, {period.value} of {start:%Y-%m-%d}",
                    f"{holder.kind} {holder.name} has used {num_used} of its {budget} tokens "
                    f"of this {period.value}.",
                )


def period_start(period: BudgetPeriod, now: datetime) -> datetime:
    """When the current day, week (Monday) or month began, in UTC."""
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match period:
        case BudgetPeriod.DAY:
            return day
        case BudgetPeriod.WEEK:
            return day - timedelta(days=day.weekday())
        case BudgetPeriod.MONTH:
            return day.replace(day=1)


def _tokens_used(holders: Sequence[BudgetHolder], start: datetime) -> dict[tuple[str, int], int]:
    """Tokens since `start`, by column and id, of what is aggregated."""
    used: dict[tuple[str, int], int] = {}
    for column in {holder.column for holder in holders}:
        ids = [holder.id for holder in holders if holder.column == column]
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {column}, sum(num_input_tokens + num_output_tokens)::bigint "  # noqa: S608
                f"FROM inference_usagebucket WHERE {column} = ANY (%s) AND hour >= %s GROUP BY {column}",
                [ids, start],
            )
            used.update({(column, owner): tokens for owner, tokens in cursor.fetchall()})
    return used


def error_rate_signals(*, now: datetime, max_error_rate: float) -> Iterator[AlertSignal]:
    """The share of the last ten minutes' requests that failed for a reason of ours, where it is at least
    `max_error_rate` (0 … 1; 0: nobody asked)."""
    if not max_error_rate:
        return
    rows = GenerationRecord.objects.filter(created_at__gte=now - ERROR_WINDOW).values("outcome")
    counts = {row["outcome"]: row["num"] for row in rows.annotate(num=Count("id")).order_by()}
    num_all, num_failed = sum(counts.values()), sum(counts.get(outcome, 0) for outcome in _ERRORS)
    if num_all >= MIN_REQUESTS and num_failed >= max_error_rate * num_all:
        yield AlertSignal(
            AlertKind.ERROR_RATE,
            "",
            f"{num_failed} of the last ten minutes' {num_all} requests failed.",
        )


def engine_signals(*, host: str, port: int) -> Iterator[AlertSignal]:
    """Whether the server says of itself that it cannot serve, or says nothing."""
    server = http.client.HTTPConnection(host, port, timeout=PROBE_LIMIT_S)
    try:
        server.request("GET", "/readyz")
        status = server.getresponse().status
        problem = "" if status == 200 else f"it answers {status}"
    except (OSError, http.client.HTTPException):
        problem = "it does not answer"
    finally:
        server.close()
    if problem:
        yield AlertSignal(AlertKind.ENGINE_DOWN, "", f"The server cannot generate: {problem}.")
