"""How long do loading, adding up and reading a million records take?

    .venv/bin/python benchmarks/usage.py [--records 1000000] [--write]

Starts a Postgres of its own in a temporary folder, loads records of 200 keys over 30 days, adds
them up, loads one more hour with a quarter as many, and times what the doors and
the worker ask. Seconds; reads are the median of five. --write puts the result beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

RESULTS = Path(__file__).parent / "results" / "usage.json"
START = datetime(2026, 10, 20, tzinfo=UTC)
NUM_DAYS, NUM_KEYS = 30, 200

_LOAD = """
INSERT INTO inference_generationrecord
SELECT gen_random_uuid(), at, at + interval '2 s', now(), gen_random_uuid()::text,
    n %% {keys} %% 40, 'user', n %% {keys}, 'key', n %% {keys} %% 7, 'team',
    'chat.completions', 'model-' || (n / 200) %% 2, n %% 2 = 0, 'normal',
    '', false, '', '{{}}', 256, 100 + n %% 900, n %% 100, n %% 256, 0, 0,
    random() * 0.5, 0.05 + random(), 0.01 + random() * 0.02, 1 + random() * 5,
    (ARRAY['completed', 'client_disconnect', 'rejected'])[1 + (random() > 0.9)::int + (random() > 0.95)::int],
    200, 'stop', '', '', '[]'
FROM (SELECT n, %s::timestamptz + random() * %s::interval AS at FROM generate_series(1, %s) AS n) AS made
"""


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_of_five(work: Callable[[], object]) -> float:
    return round(statistics.median(timed(work) for _ in range(5)), 4)


def measure(num_records: int) -> dict[str, float]:
    from zoneinfo import ZoneInfo

    from django.db import connection

    from inference.domain.usage import BucketWidth, UsageRange
    from inference.ledger.partitions import partitions_ensure
    from inference.openai.usage_report import CSV_COLUMNS
    from inference.usage.aggregation import usage_aggregate, usage_rebuild
    from inference.usage.selectors import UsageOwner, records_paged, usage_latencies, usage_report

    partitions_ensure(connection=connection, now=START)

    def load(at: datetime, length: timedelta, count: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_LOAD.format(keys=NUM_KEYS), [at, length, count])

    found: dict[str, float] = {}
    key, days = UsageOwner(key_id=3), UsageRange(width=BucketWidth.DAY, zone=ZoneInfo("Europe/Berlin"))
    found["load_s"] = timed(lambda: load(START, timedelta(days=NUM_DAYS), num_records))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    found["report_of_a_key_nothing_aggregated_s"] = median_of_five(
        lambda: usage_report(owner=key, range=days)
    )
    found["aggregate_all_s"] = timed(usage_aggregate)
    load(START + timedelta(days=NUM_DAYS), timedelta(hours=1), num_records // 4)
    found["aggregate_a_quarter_in_one_hour_s"] = timed(usage_aggregate)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    found["aggregate_nothing_s"] = median_of_five(usage_aggregate)
    found["report_of_a_key_by_days_s"] = median_of_five(lambda: usage_report(owner=key, range=days))
    found["report_of_a_user_by_days_s"] = median_of_five(
        lambda: usage_report(owner=UsageOwner(user_id=3), range=days)
    )
    found["latencies_of_a_key_s"] = median_of_five(lambda: usage_latencies(owner=key, range=days))
    found["report_of_all_by_days_s"] = median_of_five(lambda: usage_report(owner=UsageOwner(), range=days))
    columns = [field for _, field in CSV_COLUMNS]

    def pages(owner: UsageOwner, size: int) -> object:
        return records_paged(owner=owner, range=UsageRange(), columns=columns, page_size=size)

    found["csv_first_page_of_a_key_s"] = median_of_five(lambda: next(pages(key, 500)))  # type: ignore[call-overload]
    found["csv_first_page_of_all_s"] = median_of_five(lambda: next(pages(UsageOwner(), 500)))  # type: ignore[call-overload]
    found["csv_of_a_key_s"] = timed(lambda: sum(len(page) for page in pages(key, 2000)))  # type: ignore[attr-defined]
    hour = START + timedelta(days=NUM_DAYS)
    found["rebuild_an_hour_of_a_quarter_s"] = timed(
        lambda: usage_rebuild(start_at=hour, end_at=hour + timedelta(hours=1))
    )
    whole = usage_report(owner=UsageOwner(), range=UsageRange()).totals.num_requests
    assert whole == num_records + num_records // 4, whole
    return {name: round(value, 4) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    from skippy_site.provision.cpu_features import read_cpu
    from skippy_site.state import StateFolder
    from skippy_site.supervisor.discovery import embedded_urls
    from tests.plugin import TestServices

    with tempfile.TemporaryDirectory() as folder:
        state = StateFolder(Path(folder))
        state.make()
        os.environ.update(embedded_urls(state).as_environment())
        os.environ["SKIPPY_HOME"] = str(state.root)
        os.environ["DJANGO_SETTINGS_MODULE"] = "skippy_site.settings"
        services = TestServices(state)
        services.start()
        try:
            import django
            from django.core.management import call_command
            from django.db import connection

            django.setup()
            call_command("migrate", verbosity=0)
            found = measure(options.records)
            connection.close()
        finally:
            services.stop()
    result = {
        "command": f"benchmarks/usage.py --records {options.records}",
        "cpu": read_cpu().model,
        "measured_on": f"{datetime.now(UTC):%Y-%m-%d}",
        "records": options.records,
        **found,
    }
    print(json.dumps(result, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
