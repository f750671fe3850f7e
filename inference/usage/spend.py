"""What single requests cost, at the prices of their day; `slices.priced_sql` says the same of sums."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from inference.models import ModelPrice

_TOKENS_A_PRICE = 1_000_000


def record_spends(records: Sequence[Any]) -> tuple[float | None, ...]:
    """For each record, in the prices' currency; None where its model had no price on its day (UTC)."""
    prices: dict[str, list[ModelPrice]] = {}
    named = {record.model for record in records}
    for price in ModelPrice.objects.filter(model__in=named).order_by("-starts_on"):
        prices.setdefault(price.model, []).append(price)
    return tuple(_spend(record, prices.get(record.model, [])) for record in records)


def _spend(record: Any, newest_first: Sequence[ModelPrice]) -> float | None:
    day = record.created_at.astimezone(UTC).date()
    price = next((one for one in newest_first if one.starts_on <= day), None)
    if price is None:
        return None
    cached_price = price.input_price if price.cached_price is None else price.cached_price
    total = (
        (record.num_input_tokens - record.num_cached_tokens) * price.input_price
        + record.num_cached_tokens * cached_price
        + record.num_output_tokens * price.output_price
    )
    return float(total) / _TOKENS_A_PRICE
