"""A slice of all usage: of whom, of which model and endpoint, in which hours. What dashboards ask about.

Several tables hold the same counts: hours by key and by team, hours of everybody, days of teams and of
everybody, days and months by key (inference/models/usage.py). Each question goes to the smallest that can
answer it, over a long time to several: whole days (`spans.py`) and the hours between them. What no bucket
has counted yet is added by the same statement, so that every answer is exact up to the last commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from inference.domain.usage import UsageRange
from inference.usage.aggregation import REASON_SQL
from inference.usage.selectors import UsageOwner


@dataclass(frozen=True, slots=True)
class UsageSlice:
    """Everything named must fit. `range` has a start and an end."""

    range: UsageRange
    owner: UsageOwner = field(default_factory=UsageOwner)
    model: str | None = None
    endpoint: str | None = None

    def __post_init__(self) -> None:
        if self.range.start_at is None or self.range.end_at is None:
            raise ValueError("a slice has a start and an end")

    @property
    def start_hour(self) -> datetime:
        assert self.range.start_hour is not None
        return self.range.start_hour

    @property
    def end_hour(self) -> datetime:
        assert self.range.end_hour is not None
        return self.range.end_hour

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of buckets and records that must have this value."""
        named: dict[str, Any] = {"model": self.model, "endpoint": self.endpoint}
        return {**self.owner.columns, **{name: value for name, value in named.items() if value is not None}}

    @property
    def is_about_keys(self) -> bool:
        """Whether hours by team cannot tell it."""
        return self.owner.key_id is not None or self.owner.user_id is not None

    def within(self, start_at: datetime, end_at: datetime) -> UsageSlice:
        return replace(self, range=replace(self.range, start_at=start_at, end_at=end_at))


@dataclass(frozen=True, slots=True)
class SliceTotals:
    """Counts of a slice. `num_unfinished` are the requests that were not completed; `spend` is in the
    currency of the prices, without what models without a price did."""

    num_requests: int = 0
    num_unfinished: int = 0
    num_input_tokens: int = 0
    num_cached_tokens: int = 0
    num_output_tokens: int = 0
    spend: float = 0.0

    @property
    def num_total_tokens(self) -> int:
        return self.num_input_tokens + self.num_output_tokens

    def __add__(self, other: SliceTotals) -> SliceTotals:
        return SliceTotals(
            *(getattr(self, one.name) + getattr(other, one.name) for one in fields(SliceTotals))
        )


TOTALS_SQL = (
    "sum(num_requests)::bigint, sum(num_unfinished)::bigint, sum(num_input_tokens)::bigint, "
    "sum(num_cached_tokens)::bigint, sum(num_output_tokens)::bigint, sum(spend)::float8"
)
"""The columns of a `SliceTotals`, of a relation made by `priced_sql`."""

# A price holds until the next one's day.
_PRICES = """
prices AS (
    SELECT model, starts_on::timestamp AT TIME ZONE 'UTC' AS starts_at,
        coalesce(
            lead(starts_on) OVER (PARTITION BY model ORDER BY starts_on)::timestamp AT TIME ZONE 'UTC',
            'infinity'
        ) AS ends_at,
        input_price::float8 / 1e6 AS input_price,
        coalesce(cached_price, input_price)::float8 / 1e6 AS cached_price,
        output_price::float8 / 1e6 AS output_price
    FROM inference_modelprice
)"""
_PRICED = """
priced AS (
    SELECT counted.*, coalesce(
        (num_input_tokens - num_cached_tokens) * input_price + num_cached_tokens * cached_price
        + num_output_tokens * output_price, 0) AS spend
    FROM counted LEFT JOIN prices
        ON prices.model = counted.model AND counted.hour >= starts_at AND counted.hour < ends_at
)"""
_TOKENS = "num_input_tokens, num_cached_tokens, num_output_tokens"
_UNFINISHED = "CASE WHEN outcome = 'completed' THEN 0 ELSE num_requests END AS num_unfinished"


def priced_sql(parts: Sequence[str]) -> str:
    """A WITH clause that ends with `priced`: the union of `parts`, each row with what it cost."""
    return f"WITH {_PRICES}, counted AS ({' UNION ALL '.join(parts)}), {_PRICED}"


def hours_sql(source: str, dimensions: Sequence[str], *, hour: str = "hour") -> str:
    """Rows of a table of requests that ended, with `dimensions` of it; `source` is the table and WHERE."""
    return (
        f"SELECT {hour} AS hour, {', '.join(dimensions)}, num_requests, {_UNFINISHED}, {_TOKENS} "  # noqa: S608
        f"FROM {source}"
    )


def parties_sql(unit: str, dimensions: Sequence[str], condition: str) -> str:
    """Rows of the days or months (`unit`) of keys."""
    return (
        f"SELECT {unit} AS hour, {', '.join(dimensions)}, num_requests, num_unfinished, {_TOKENS} "  # noqa: S608
        f"FROM inference_usage{unit} WHERE {condition}"
    )


def pending_sql(dimensions: Sequence[str], condition: str) -> str:
    """Records that no bucket has counted yet, in the same form."""
    named = [f"{REASON_SQL} AS reason" if name == "reason" else f"r.{name}" for name in dimensions]
    return (
        f"SELECT date_trunc('hour', r.created_at, 'UTC') AS hour, {', '.join(named)}, 1 AS num_requests, "  # noqa: S608
        "CASE WHEN r.outcome = 'completed' THEN 0 ELSE 1 END AS num_unfinished, "
        "r.num_input_tokens, r.num_cached_tokens, r.num_output_tokens "
        "FROM inference_usagepending AS p "
        "JOIN inference_generationrecord AS r ON r.id = p.record_id AND r.created_at = p.created_at "
        f"WHERE {condition}"
    )


def columns_condition(slice: UsageSlice, given: dict[str, Any]) -> str:
    """What all buckets must fulfil, of whatever time; what it needs is put into `given`."""
    given.update(slice.columns)
    return " AND ".join([f"{name} = %({name})s" for name in slice.columns]) or "true"


def pending_condition(slice: UsageSlice, given: dict[str, Any]) -> str:
    given.update(slice.columns, start=slice.start_hour, end=slice.end_hour)
    # The pending row repeats key and user, so that neither costs more than its own.
    named = [f"{'p' if name in ('key_id', 'user_id') else 'r'}.{name} = %({name})s" for name in slice.columns]
    return " AND ".join([*named, "p.created_at >= %(start)s", "p.created_at < %(end)s"])
