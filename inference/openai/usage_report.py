"""How usage is written: a JSON object with the totals on top, or CSV with one line a request.

Token counts have the names and the nesting of OpenAI's `usage` of an answer.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from inference.domain.latency_histogram import LatencyHistogram
from inference.domain.usage import LatencyReport, UsageReport, UsageTotals

CSV_COLUMNS: tuple[tuple[str, str], ...] = (
    ("created_at", "created_at"),
    ("finished_at", "finished_at"),
    ("request_id", "request_id"),
    ("endpoint", "endpoint"),
    ("model", "model"),
    ("stream", "is_stream"),
    ("outcome", "outcome"),
    ("status", "status"),
    ("finish_reason", "finish_reason"),
    ("error_code", "error_code"),
    ("rejection_reason", "rejection_reason"),
    ("prompt_tokens", "num_input_tokens"),
    ("cached_tokens", "num_cached_tokens"),
    ("completion_tokens", "num_output_tokens"),
    ("reasoning_tokens", "num_reasoning_tokens"),
    ("injected_tokens", "num_injected_tokens"),
    ("queue_s", "queue_s"),
    ("time_to_first_token_s", "first_token_s"),
    ("time_per_output_token_s", "time_per_token_s"),
    ("total_s", "total_s"),
)
"""The name of each column of the CSV, and of the record's field that it shows."""
# Spreadsheets take a text that begins so for a formula, and a model's name is the caller's to choose.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def usage_report_body(report: UsageReport, latencies: LatencyReport | None) -> bytes:
    """The report as JSON, with latencies where there are some. Instants are written in the report's time
    zone, with its offset."""
    asked, zone = report.range, report.range.zone
    body: dict[str, Any] = {
        "object": "usage",
        "start": _instant(asked.start_hour, zone),
        "end": _instant(asked.end_hour, zone),
        "time_zone": zone.key,
        "bucket": asked.width.value if asked.width is not None else None,
        **_totals(report.totals),
        "outcomes": {outcome: _totals(totals) for outcome, totals in report.by_outcome},
    }
    if latencies is not None:
        body["latencies"] = {
            "queue_s": _quantiles(latencies.queue),
            "time_to_first_token_s": _quantiles(latencies.first_token),
            "time_per_output_token_s": _quantiles(latencies.per_token),
            "total_s": _quantiles(latencies.total),
        }
    if asked.width is not None:
        body["buckets"] = [
            {"start": bucket.start_at.isoformat(), "end": bucket.end_at.isoformat(), **_totals(bucket.totals)}
            for bucket in report.buckets
        ]
    return orjson.dumps(body)


def csv_header() -> bytes:
    return csv_lines([[name for name, _ in CSV_COLUMNS]])


def csv_lines(rows: Iterable[Sequence[Any]]) -> bytes:
    """RFC 4180: commas, quotes where they are needed, CRLF; UTF-8."""
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6f}"
        case datetime():
            return value.astimezone(UTC).isoformat()
        case str() if value.startswith(_FORMULA_STARTS):
            return f"'{value}"
        case _:
            return value


def _totals(totals: UsageTotals) -> dict[str, object]:
    return {
        "requests": totals.num_requests,
        "total_tokens": totals.num_total_tokens,
        "prompt_tokens": totals.num_input_tokens,
        "completion_tokens": totals.num_output_tokens,
        "prompt_tokens_details": {"cached_tokens": totals.num_cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": totals.num_reasoning_tokens},
        "injected_tokens": totals.num_injected_tokens,
    }


def _quantiles(histogram: LatencyHistogram) -> dict[str, float | None]:
    return {
        name: None if (value := histogram.quantile_s(share)) is None else round(value, 6)
        for name, share in _QUANTILES
    }


def _instant(at: datetime | None, zone: Any) -> str | None:
    return None if at is None else at.astimezone(zone).isoformat()
