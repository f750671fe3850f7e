"""How long do the console's pages take over a million records?

    .venv/bin/python benchmarks/console.py [--records 1000000] [--json OUT]

Starts a Postgres of its own in a temporary folder, loads --records records of 200 keys over 30 days as
usage.py does, with a few rare endings among them, adds them up, and asks for every page of the console as an
operator and as the owner of five keys, and for the lists of the admin: seconds (the median of
five), what this process and Postgres computed for it, and queries. Django's whole stack without a socket.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# The checkout first: hooks.py of this folder is not the package.
sys.path[:0] = [str(CHECKOUT), str(Path(__file__).resolve().parent)]

from usage import NUM_DAYS, NUM_KEYS, NUM_TEAMS, NUM_USERS, START, backend_cpu_s, timed  # noqa: E402

NUM_ROUNDS = 5
_LOAD = """
INSERT INTO inference_generationrecord
SELECT gen_random_uuid(), at, at + interval '2 s', now(), gen_random_uuid()::text,
    1 + n % 200 % 40, 'user', 1 + n % 200, 'key', 1 + n % 200 % 7, 'team',
    (ARRAY['chat.completions', 'embeddings'])[1 + (random() > 0.9)::int], 'model-' || (n / 200) % 2,
    n % 2 = 0, 'normal',
    '', false, '', '{}', NULL, 256, 100 + n % 900, n % 100, n % 256, 0, 0,
    random() * 0.5, 0.05 + random(), 0.01 + random() * 0.02, 1 + random() * 5,
    (ARRAY['completed', 'rejected', 'backend_error'])[ending], 200,
    CASE WHEN ending = 1 THEN (ARRAY['stop', 'length', 'tool_calls'])[1 + n % 3] ELSE '' END,
    CASE WHEN ending = 2 THEN (ARRAY['queue_full', 'predicted_wait'])[1 + n % 2] ELSE '' END,
    CASE WHEN ending = 1 THEN '' WHEN ending = 2 THEN 'server_overloaded'
        WHEN n % 100000 = 7 THEN 'generation_failed' ELSE 'timeout' END, '[]'
FROM (
    SELECT n, %(at)s::timestamptz + random() * %(length)s::interval AS at,
        CASE WHEN n % 100000 = 7 THEN 3 ELSE 1 + (random() > 0.95)::int + (random() > 0.99)::int END AS ending
    FROM generate_series(1, %(count)s) AS n
) AS made
ORDER BY at
"""


def fill(num_records: int) -> dict[str, float]:
    from django.db import connection

    from inference.ledger.partitions import partitions_ensure
    from inference.models import ModelPrice
    from inference.usage.aggregation import usage_aggregate

    partitions_ensure(connection=connection, now=START)
    given = {"at": START, "length": timedelta(days=NUM_DAYS), "count": num_records}

    def load() -> None:
        with connection.cursor() as cursor:
            columns = [field.column for field in _columns()]
            statement = _LOAD.replace(
                "inference_generationrecord", f"inference_generationrecord ({', '.join(columns)})", 1
            ).replace(" % ", " %% ")
            cursor.execute(statement, given)

    found = {"load_s": timed(load), "aggregate_s": timed(usage_aggregate)}
    for number in range(2):
        ModelPrice.objects.create(
            model=f"model-{number}", starts_on=START.date(), input_price=1, cached_price="0.1", output_price=3
        )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        for table in ("usagebucket", "teamusagebucket", "teamlatencybucket", "usageday"):
            cursor.execute(f"SELECT count(*) FROM inference_{table}")
            found[f"rows_of_{table}"] = cursor.fetchone()[0]
    return found


def _columns() -> list[Any]:
    from inference.models import GenerationRecord

    return list(GenerationRecord._meta.concrete_fields)


def pages() -> list[str]:
    from inference.dashboards.overview import PARTS
    from inference.models import GenerationRecord

    last = START + timedelta(days=NUM_DAYS - 1)
    month = f"range=custom&from={START:%Y-%m-%d}&to={last:%Y-%m-%d}&zone=Europe/Berlin"
    three = f"range=custom&from={last - timedelta(days=2):%Y-%m-%d}&to={last:%Y-%m-%d}"
    record = GenerationRecord.objects.order_by("created_at")[1000]
    middle = START + timedelta(days=NUM_DAYS / 2)
    behind = f"after={int(middle.timestamp() * 1e6)}"
    filters = ("", "&outcome=backend_error", "&error_code=generation_failed", "&reason=length&model=model-1")
    return [
        f"/console/?{month}",
        f"/console/?{three}",
        f"/console/?{month}&model=model-1",
        f"/console/?{month}&key=4",
        *(f"/console/usage/{kind}/?{month}" for kind in PARTS),
        f"/console/usage.csv?{month}",
        *(f"/console/requests/?{month}{more}" for more in filters),
        f"/console/requests/?{month}&{behind}",
        f"/console/requests/?{month}&request_id={record.request_id}",
        f"/console/requests/?{month}&key=4&error_code=generation_failed",
        f"/console/requests/{record.pk}/",
        "/console/start/",
    ]


def of_operators() -> list[str]:
    last = START + timedelta(days=NUM_DAYS - 1)
    month = f"range=custom&from={START:%Y-%m-%d}&to={last:%Y-%m-%d}"
    return [
        f"/console/?{month}&team=3",
        f"/console/?{month}&user=3",
        f"/console/requests/?{month}&team=3&outcome=rejected",
        *(
            f"/admin/{name}/"
            for name in (
                "accounts/apikey",
                "accounts/team",
                "accounts/administrativechange",
                "auth/user",
                "auth/group",
                "inference/modelrow",
                "inference/modelprice",
                "inference/alert",
            )
        ),
    ]


def measure_pages(user: Any, addresses: list[str]) -> dict[str, dict[str, float]]:
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
        times = [timed(lambda address=address: client.get(address)) for _ in range(NUM_ROUNDS)]  # type: ignore[misc]
        cpu_s = (time.process_time() + backend_cpu_s() - before_s) / NUM_ROUNDS
        found[address] = {"s": round(statistics.median(times), 3), "cpu_s": round(cpu_s, 3), "queries": reads}
    return found


def first_page_of_csv_s(user: Any) -> float:
    """Until the first thousand lines of everybody's log have come."""
    from django.test import AsyncClient

    async def ask() -> float:
        client = AsyncClient()
        await client.aforce_login(user)
        began = time.perf_counter()
        response = await client.get("/console/requests.csv?range=custom&from=2026-10-20&to=2026-11-18")
        num_lines = 0
        async for part in response.streaming_content:
            num_lines += part.count(b"\n")
            if num_lines > 1000:
                break
        return round(time.perf_counter() - began, 3)

    return asyncio.run(ask())


def measure(num_records: int) -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from usage_doors import make_accounts

    operator = make_accounts(num_users=NUM_USERS, num_keys=NUM_KEYS, num_teams=NUM_TEAMS)
    found: dict[str, Any] = fill(num_records)
    owner = get_user_model().objects.order_by("pk")[3]
    found["operator"] = measure_pages(operator, [*pages(), *of_operators()])
    found["owner"] = measure_pages(owner, pages())
    found["csv_first_thousand_s"] = first_page_of_csv_s(operator)
    for who in ("operator", "owner"):
        found[f"most_cpu_of_{who}_s"] = max(one["cpu_s"] for one in found[who].values())
        found[f"slowest_of_{who}_s"] = max(one["s"] for one in found[who].values())
        found[f"most_queries_of_{who}"] = max(one["queries"] for one in found[who].values())
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    from servers import write_results
    from temporary_services import temporary_services

    with temporary_services():
        found = {"records": options.records, **measure(options.records)}
    print(json.dumps(found, indent=1))
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
