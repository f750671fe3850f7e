import csv
import io
import json
from datetime import datetime
from zoneinfo import ZoneInfo

from inference.domain.latency_histogram import LatencyHistogram
from inference.domain.usage import (
    BucketWidth,
    LatencyReport,
    UsageBucketTotals,
    UsageRange,
    UsageReport,
    UsageTotals,
)
from inference.openai.usage_report import CSV_COLUMNS, csv_header, csv_lines, usage_report_body

TOTALS = UsageTotals(3, 30, 12, 15, 6, 2)
BERLIN = ZoneInfo("Europe/Berlin")


def test_totals_and_their_parts_are_at_the_top():
    body = json.loads(
        usage_report_body(UsageReport(UsageRange(), TOTALS, (("completed", TOTALS),)), LatencyReport())
    )

    assert body["requests"] == 3
    assert body["total_tokens"] == body["prompt_tokens"] + body["completion_tokens"] == 45
    assert body["prompt_tokens_details"] == {"cached_tokens": 12}
    assert body["completion_tokens_details"] == {"reasoning_tokens": 6}
    assert body["injected_tokens"] == 2
    assert body["outcomes"]["completed"]["requests"] == 3
    assert (body["start"], body["end"], body["bucket"]) == (None, None, None)
    assert "buckets" not in body


def test_instants_are_in_the_zone_that_was_asked_for():
    start, end = datetime(2026, 7, 1, tzinfo=BERLIN), datetime(2026, 7, 2, tzinfo=BERLIN)
    range = UsageRange(start, end, BucketWidth.DAY, BERLIN)

    body = json.loads(
        usage_report_body(
            UsageReport(range, TOTALS, buckets=(UsageBucketTotals(start, end, TOTALS),)), LatencyReport()
        )
    )

    assert body["start"] == "2026-07-01T00:00:00+02:00"
    assert body["buckets"][0]["end"] == "2026-07-02T00:00:00+02:00"
    assert body["buckets"][0]["total_tokens"] == 45


def test_latencies_without_requests_are_null():
    latencies = LatencyReport(total=LatencyHistogram.of([0.5] * 100))

    body = json.loads(usage_report_body(UsageReport(UsageRange(), TOTALS), latencies))

    assert body["latencies"]["queue_s"] == {"p50": None, "p95": None, "p99": None}
    assert 0.4 < body["latencies"]["total_s"]["p95"] < 0.6


def test_csv_survives_what_callers_write():
    odd = ['a,"b"', "=HYPERLINK(1)", "+1", "@x", "-", "line\r\nbreak", "ü€😀", "\ud800", None, True, 1.5, 7]

    text = csv_lines([odd]).decode()

    (row,) = csv.reader(io.StringIO(text, newline=""))
    assert row[:5] == ['a,"b"', "'=HYPERLINK(1)", "'+1", "'@x", "'-"]
    assert row[5:7] == ["line\r\nbreak", "ü€😀"]
    assert row[8:] == ["", "true", "1.500000", "7"]


def test_csv_has_one_name_for_each_column():
    (names,) = csv.reader(io.StringIO(csv_header().decode()))

    assert names == [name for name, _ in CSV_COLUMNS]
    assert csv_lines([[datetime(2026, 1, 1, 12, tzinfo=BERLIN)]]) == b"2026-01-01T11:00:00+00:00\r\n"
