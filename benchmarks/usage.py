"""How long do loading, adding up and reading a million records take?

    .venv/bin/python benchmarks/usage.py [--records 1000000] [--hour 1000000] [--json OUT]

Starts a Postgres of its own in a temporary folder, loads --records records of 200 keys over 30 days, in the
order in which they would have come, adds them up, loads one more hour with --hour records, and times what
the worker and the doors (usage_doors.py) ask. Seconds; reads are the median of five.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# The checkout first: hooks.py of this folder is not the package.
sys.path[:0] = [str(CHECKOUT), str(Path(__file__).resolve().parent)]

START = datetime(2026, 10, 20, tzinfo=UTC)
NUM_DAYS, NUM_KEYS, NUM_USERS, NUM_TEAMS = 30, 200, 40, 7

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
ORDER BY at
"""


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_of_five(work: Callable[[], object]) -> float:
    return round(statistics.median(timed(work) for _ in range(5)), 4)


def backend_cpu_s() -> float:
    """What Postgres has computed for us so far: the rest of the time it waited, or others had the cores."""
    from django.db import connection

    connection.ensure_connection()
    fields = (
        Path(f"/proc/{connection.connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(num_records: int, num_of_hour: int) -> dict[str, Any]:
    from zoneinfo import ZoneInfo

    from django.db import connection

    from inference.domain.usage import BucketWidth, UsageRange
    from inference.ledger.partitions import partitions_ensure
    from inference.openai.usage_report import CSV_COLUMNS
    from inference.usage.aggregation import usage_aggregate
    from inference.usage.rebuild import usage_rebuild
    from inference.usage.selectors import UsageOwner, records_paged, usage_latencies, usage_report

    partitions_ensure(connection=connection, now=START)

    def load(at: datetime, length: timedelta, count: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_LOAD.format(keys=NUM_KEYS), [at, length, count])

    found: dict[str, Any] = {}
    key, days = UsageOwner(key_id=3), UsageRange(width=BucketWidth.DAY, zone=ZoneInfo("Europe/Berlin"))
    found["load_s"] = timed(lambda: load(START, timedelta(days=NUM_DAYS), num_records))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    found["report_of_a_key_nothing_aggregated_s"] = median_of_five(
        lambda: usage_report(owner=key, range=days)
    )
    found["aggregate_all_s"] = timed(usage_aggregate)
    hour = START + timedelta(days=NUM_DAYS)
    load(hour, timedelta(hours=1), num_of_hour)
    before_s = backend_cpu_s()
    found["aggregate_the_hour_s"] = timed(usage_aggregate)
    found["aggregate_the_hour_cpu_s"] = backend_cpu_s() - before_s
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
    found["rebuild_the_hour_s"] = timed(
        lambda: usage_rebuild(start_at=hour, end_at=hour + timedelta(hours=1))
    )
    whole = usage_report(owner=UsageOwner(), range=UsageRange()).totals.num_requests
    assert whole == num_records + num_of_hour, whole
    from usage_doors import make_accounts, measure_doors

    user = make_accounts(num_users=NUM_USERS, num_keys=NUM_KEYS, num_teams=NUM_TEAMS)
    found = {name: round(value, 4) for name, value in found.items()}
    return found | {"doors": measure_doors(user, START, hour)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--hour", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    from servers import write_results
    from temporary_services import temporary_services

    with temporary_services():
        found = measure(options.records, options.hour)
    found = {"records": options.records, "records_of_the_hour": options.hour, **found}
    print(json.dumps(found, indent=1))
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
