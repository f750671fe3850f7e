"""How long do the console's pages take over a million records?

    .venv/bin/python benchmarks/console.py [--records 1000000] [--days 30] [--keys 200] [--users 40] \
        [--teams 7] [--rounds 5] [--json OUT]

Starts a Postgres of its own in a temporary folder, loads --records records of --keys keys over --days days,
with a few rare endings and some decisions of policies among them, adds them up, and asks for every page of
the console (a day, a month, the whole time; each filter of the log alone and the worst together) as an
operator and as the owner of the fourth key, and for all lists of the admin: seconds (the median of --rounds),
what this process and Postgres computed for it, and queries. Then the log as CSV: its first lines, and what
all of it takes of memory. Django's whole stack without a socket.

Few records a key and hour are the worst case: --days 365 --keys 5000 --users 500 --teams 40 has one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# The checkout first: hooks.py of this folder is not the package.
sys.path[:0] = [str(CHECKOUT), str(Path(__file__).resolve().parent)]

from usage import backend_cpu_s, timed  # noqa: E402

END = datetime(2026, 11, 19, tzinfo=UTC)
NUM_LINES = 1000
_LOAD = """
INSERT INTO inference_generationrecord
SELECT gen_random_uuid(), at, at + interval '2 s', now(), gen_random_uuid()::text,
    1 + k % {users}, 'user', 1 + k, 'key', 1 + k % {users} % {teams}, 'team',
    (ARRAY['chat.completions', 'embeddings'])[1 + (random() > 0.9)::int], 'model-' || (n / 200) % 2,
    n % 2 = 0, 'normal',
    '', false, '', '{{}}', NULL, 256, 100 + n % 900, n % 100, n % 256, 0, 0,
    random() * 0.5, 0.05 + random(), 0.01 + random() * 0.02, 1 + random() * 5,
    (ARRAY['completed', 'rejected', 'backend_error'])[ending], 200,
    CASE WHEN ending = 1 THEN (ARRAY['stop', 'length', 'tool_calls'])[1 + n % 3] ELSE '' END,
    CASE WHEN ending = 2 THEN (ARRAY['queue_full', 'predicted_wait'])[1 + n % 2] ELSE '' END,
    CASE WHEN ending = 1 THEN '' WHEN ending = 2 THEN 'server_overloaded'
        WHEN n % 100000 = 7 THEN 'generation_failed' ELSE 'timeout' END,
    CASE WHEN n % 20 = 0 THEN
        '[{{"policy_id": 1, "point": "input", "result": "applied", "actions": ["deny"], "elapsed_ms": 1.5}}]'
        ELSE '[]' END::jsonb
FROM (
    SELECT n, n % {keys} AS k, %(at)s::timestamptz + random() * %(length)s::interval AS at,
        CASE WHEN n % 100000 = 7 THEN 3 ELSE 1 + (random() > 0.95)::int + (random() > 0.99)::int END AS ending
    FROM generate_series(1, %(count)s) AS n
) AS made
ORDER BY at
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What there is to be shown."""

    records: int
    days: int
    keys: int
    users: int
    teams: int

    @property
    def start(self) -> datetime:
        return END - timedelta(days=self.days)

    def range(self, days: int, zone: str = "UTC") -> str:
        """The last days, as a page's query."""
        days, last = min(days, self.days), END - timedelta(days=1)
        return f"range=custom&from={END - timedelta(days=days):%Y-%m-%d}&to={last:%Y-%m-%d}&zone={zone}"


def fill(sizes: Sizes) -> dict[str, float]:
    from django.db import connection

    from inference.ledger.partitions import partitions_ensure
    from inference.models import ModelPrice
    from inference.usage.aggregation import usage_aggregate

    for days in range(0, sizes.days + 28, 28):
        partitions_ensure(connection=connection, now=sizes.start + timedelta(days=days))
    given = {"at": sizes.start, "length": timedelta(days=sizes.days), "count": sizes.records}

    def load() -> None:
        with connection.cursor() as cursor:
            columns = [field.column for field in _columns()]
            statement = (
                _LOAD.format(keys=sizes.keys, users=sizes.users, teams=sizes.teams)
                .replace(
                    "inference_generationrecord", f"inference_generationrecord ({', '.join(columns)})", 1
                )
                .replace(" % ", " %% ")
            )
            cursor.execute(statement, given)

    found = {"load_s": timed(load), "aggregate_s": timed(usage_aggregate)}
    for number in range(2):
        ModelPrice.objects.create(
            model=f"model-{number}",
            starts_on=sizes.start.date(),
            input_price=1,
            cached_price="0.1",
            output_price=3,
        )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        for table in _TABLES:
            cursor.execute(
                f"SELECT count(*), pg_total_relation_size('inference_{table}') >> 20 FROM inference_{table}"
            )
            found[f"rows_of_{table}"], found[f"mb_of_{table}"] = cursor.fetchone()
    return found


def _columns() -> list[Any]:
    from inference.models import GenerationRecord

    return list(GenerationRecord._meta.concrete_fields)


_TABLES = (
    "usagebucket",
    "teamusagebucket",
    "teamlatencybucket",
    "spanusage",
    "spanlatency",
    "usageday",
    "usagemonth",
)


def pages(sizes: Sizes) -> list[str]:
    from inference.dashboards.overview import PARTS
    from inference.models import GenerationRecord

    month, whole = sizes.range(30, "Europe/Berlin"), sizes.range(365, "Asia/Kathmandu")
    day, three = sizes.range(1, "Australia/Lord_Howe"), sizes.range(3)
    record = GenerationRecord.objects.order_by("created_at")[1000]
    behind = f"after={int((sizes.start + timedelta(days=sizes.days / 2)).timestamp() * 1e6)}"
    alone = (
        "",
        "&outcome=backend_error",
        "&error_code=generation_failed",
        "&error_code=never_seen",
        "&reason=length",
        "&model=model-1",
        "&model=never-seen",
        "&endpoint=embeddings",
        "&key=4",
        f"&request_id={record.request_id}",
        "&request_id=never-seen",
    )
    together = (
        "&reason=length&model=model-1",
        "&outcome=completed&error_code=generation_failed",
        "&outcome=rejected&endpoint=embeddings&model=model-0&reason=queue_full",
        "&key=4&error_code=generation_failed",
        f"&key={sizes.keys}&outcome=backend_error&endpoint=embeddings",
    )
    return [
        *(f"/console/?{span}" for span in (day, three, month, whole)),
        *(f"/console/?{whole}{more}" for more in ("&model=model-1", "&endpoint=embeddings", "&key=4")),
        *(f"/console/usage/{kind}/?{span}" for kind in PARTS for span in (month, whole)),
        f"/console/usage/keys/?{whole}&sort=spend",
        f"/console/usage.csv?{whole}",
        f"/console/usage/keys.csv?{whole}",
        *(f"/console/requests/?{whole}{more}" for more in (*alone, *together)),
        f"/console/requests/?{whole}&{behind}",
        f"/console/requests/{record.pk}/",
        "/console/start/",
    ]


def of_operators(sizes: Sizes) -> list[str]:
    from django.contrib import admin
    from django.urls import reverse

    whole = sizes.range(365)
    return [
        *(f"/console/?{whole}&{whose}" for whose in ("team=3", "user=3")),
        *(
            f"/console/requests/?{whole}&{more}"
            for more in ("team=3", "user=3", "team=3&outcome=rejected", "team=3&error_code=generation_failed")
        ),
        f"/console/decisions/?{whole}",
        "/console/live/",
        *(
            reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
            for model in admin.site._registry
        ),
    ]


def measure_pages(user: Any, addresses: list[str], rounds: int) -> dict[str, dict[str, float]]:
    from django.conf import settings
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    settings.ALLOWED_HOSTS.append("testserver")
    client = Client()
    client.force_login(user)
    found: dict[str, dict[str, float]] = {}
    for address in addresses:
        with CaptureQueriesContext(connection) as captured:
            response = client.get(address)
        if response.status_code == 404:  # a list that this viewer has not
            continue
        assert response.status_code == 200, (address, response.status_code)
        reads = sum(one["sql"].startswith(("SELECT", "WITH", "\nSELECT")) for one in captured)
        before_s = time.process_time() + backend_cpu_s()
        times = [timed(lambda address=address: client.get(address)) for _ in range(rounds)]  # type: ignore[misc]
        cpu_s = (time.process_time() + backend_cpu_s() - before_s) / rounds
        found[address] = {"s": round(statistics.median(times), 3), "cpu_s": round(cpu_s, 3), "queries": reads}
    return found


def csv_of_log(user: Any, sizes: Sizes) -> dict[str, float]:
    """Until the first lines of everybody's log have come, and how much more memory the whole of it took."""
    from django.test import AsyncClient

    async def ask() -> dict[str, float]:
        client = AsyncClient()
        await client.aforce_login(user)
        began, before_kb = time.perf_counter(), resident_kb()
        response = await client.get(f"/console/requests.csv?{sizes.range(365)}")
        num_lines, first_s, most_kb = 0, 0.0, 0
        async for part in response.streaming_content:
            num_lines += part.count(b"\n")
            most_kb = max(most_kb, resident_kb())
            if num_lines > NUM_LINES and not first_s:
                first_s = time.perf_counter() - began
        return {
            f"csv_first_{NUM_LINES}_s": round(first_s, 3),
            "csv_lines": num_lines,
            "csv_s": round(time.perf_counter() - began, 1),
            "csv_grew_mb": round((most_kb - before_kb) / 1024, 1),
        }

    return asyncio.run(ask())


def resident_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def measure(sizes: Sizes, rounds: int) -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from usage_doors import make_accounts

    operator = make_accounts(num_users=sizes.users, num_keys=sizes.keys, num_teams=sizes.teams)
    found: dict[str, Any] = fill(sizes)
    owner = get_user_model().objects.order_by("pk")[3]
    found["operator"] = measure_pages(operator, [*pages(sizes), *of_operators(sizes)], rounds)
    found["owner"] = measure_pages(owner, pages(sizes), rounds)
    found |= csv_of_log(operator, sizes)
    for who in ("operator", "owner"):
        found[f"most_cpu_of_{who}_s"] = max(one["cpu_s"] for one in found[who].values())
        found[f"slowest_of_{who}_s"] = max(one["s"] for one in found[who].values())
        found[f"most_queries_of_{who}"] = max(one["queries"] for one in found[who].values())
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--teams", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    from servers import write_results
    from temporary_services import temporary_services

    with temporary_services():
        sizes = Sizes(options.records, options.days, options.keys, options.users, options.teams)
        found = {**asdict(sizes), **measure(sizes, options.rounds)}
    print(json.dumps(found, indent=1))
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
