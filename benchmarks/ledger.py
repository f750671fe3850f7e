"""What a record costs: the wait before `[DONE]`, and the event loop's time, with 1 to 64 clients.

    python -m benchmarks.ledger

Makes a database of its own beside the running service's (`SKIPPY_HOME`), writes records of no request
through the real ledger, and drops it again. Prints JSON; benchmarks/results/ledger.json is one run.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")
django.setup()

import psycopg  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from inference.domain.clock import SystemClock  # noqa: E402
from inference.domain.events import FinishReason, Usage  # noqa: E402
from inference.domain.outcomes import Outcome, RequestSummary  # noqa: E402
from inference.domain.record_ids import new_record_id  # noqa: E402
from inference.ledger.generation_ledger import GenerationLedger  # noqa: E402
from inference.ledger.store import PostgresRecordStore  # noqa: E402

NUM_RECORDS = 2000
DATABASE = "skippy_ledger_benchmark"


class Request:
    """A request that ends as soon as it has begun."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        self.summary = RequestSummary(
            record_id=new_record_id(now),
            created_at=now,
            request_id="benchmark",
            endpoint="chat.completions",
            model="benchmark",
            user_id=1,
            key_id=1,
            is_stream=True,
            outcome=Outcome.COMPLETED,
            status=200,
            finish_reason=FinishReason.STOP,
            usage=Usage(100, 50),
            max_tokens=50,
            total_s=1.0,
        )

    @property
    def record_id(self) -> Any:
        return self.summary.record_id

    @property
    def is_running(self) -> bool:
        return True

    def summary_now(self) -> RequestSummary:
        return self.summary


async def client(
    ledger: GenerationLedger, num_records: int, waits_s: list[float], loop_s: list[float]
) -> None:
    for _ in range(num_records):
        request = Request()
        begun_ts = time.perf_counter()
        ledger.open(request)
        ledger.note(request)
        opened_ts = time.perf_counter()
        safe = ledger.record(request.summary)
        ledger.hurry()
        loop_s.append(time.perf_counter() - begun_ts)
        await safe
        waits_s.append(time.perf_counter() - opened_ts)


async def measure(parameters: dict[str, Any], num_clients: int, folder: Path) -> dict[str, float]:
    ledger = GenerationLedger(folder, make_store=lambda: PostgresRecordStore(parameters), clock=SystemClock())
    await ledger.start()
    await client(ledger, 20, [], [])
    waits_s: list[float] = []
    loop_s: list[float] = []
    cpu_s, started_ts = time.process_time(), time.perf_counter()
    await asyncio.gather(
        *(client(ledger, NUM_RECORDS // num_clients, waits_s, loop_s) for _ in range(num_clients))
    )
    took_s, cpu_s = time.perf_counter() - started_ts, time.process_time() - cpu_s
    commits = ledger.statistics().total_commits
    await ledger.stop()
    waits_s.sort()
    return {
        "clients": num_clients,
        "records": len(waits_s),
        "commits": commits - 20,
        "records_per_s": round(len(waits_s) / took_s),
        "wait_ms_median": round(statistics.median(waits_s) * 1000, 3),
        "wait_ms_p95": round(waits_s[int(len(waits_s) * 0.95)] * 1000, 3),
        "loop_us_open_and_end": round(statistics.median(loop_s) * 1e6, 1),
        "cpu_us_per_record": round(cpu_s / len(waits_s) * 1e6, 1),
    }


def main() -> None:
    admin = connection.get_connection_params()
    parameters = {name: admin[name] for name in ("user", "password", "host", "port") if name in admin}
    with psycopg.connect(**parameters, dbname=admin["dbname"], autocommit=True) as setup:
        setup.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        setup.execute(f"CREATE DATABASE {DATABASE}")
    connection.close()
    connection.settings_dict["NAME"] = DATABASE
    try:
        call_command("migrate", "inference", verbosity=0)
        connection.close()
        connection.close_pool()
        with tempfile.TemporaryDirectory() as folder:
            results = [
                asyncio.run(measure({**parameters, "dbname": DATABASE}, num_clients, Path(folder)))
                for num_clients in (1, 4, 16, 64)
            ]
        print(json.dumps({"cores": os.cpu_count(), "results": results}, indent=1))
    finally:
        with psycopg.connect(**parameters, dbname=admin["dbname"], autocommit=True) as setup:
            setup.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")


if __name__ == "__main__":
    main()
