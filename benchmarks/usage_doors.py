"""What the doors that read a million records take: seconds, queries, and whether they scan the records.

For usage.py, in its process: Django's whole stack without a socket, as a superuser who has signed in.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts import services
from accounts.contracts import Limits

NUM_ROUNDS = 5
# What Django's test clients call the server.
HOST = "testserver"
# Whoever reads an empty month whole has read nothing.
FEW_ROWS = 1000


def make_accounts(*, num_users: int, num_keys: int, num_teams: int) -> Any:
    """As many as the records speak of, so that lists have something to show; the superuser."""
    teams = [services.team_create(name=f"team {number}") for number in range(num_teams)]
    users = [services.user_ensure(username=f"user{number}") for number in range(num_users)]
    for number, user in enumerate(users):
        services.user_team_set(user=user, team=teams[number % num_teams])
    for number in range(num_keys):
        limits = Limits(max_tokens_per_month=10**9, max_parallel_requests=10)
        services.api_key_create(user=users[number % num_users], name=f"key {number}", limits=limits)
    return get_user_model().objects.create_superuser("root")


def addresses(start: datetime, end: datetime) -> Iterator[str]:
    day = f"start={start:%Y-%m-%d}&end={start + timedelta(days=1):%Y-%m-%d}"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, request_id FROM inference_generationrecord WHERE created_at > %s "
            "ORDER BY created_at LIMIT 1",
            [start + (end - start) / 2],
        )
        middle, request_id = cursor.fetchone()
    for query in ("", "?limit=200", "?key_id=3", "?user_id=3", "?team_id=3", f"?{day}", f"?key_id=3&{day}"):
        yield f"/api/records{query}"
    yield f"/api/records?after={middle}&limit=200"
    yield f"/api/records?request_id={request_id}"
    for owner in ("", "key_id=3", "user_id=3", "team_id=3"):
        for rest in ("", "bucket=day&time_zone=Europe/Berlin", f"bucket=hour&latencies=true&{day}"):
            yield "/api/usage?" + "&".join(filter(None, (owner, rest)))
    for name in ("users", "keys", "teams", "changes"):
        yield f"/api/{name}?limit=200"
    for model in admin.site._registry:
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        yield path
        yield f"{path}?q=key"


def measure_doors(user: Any, start: datetime, end: datetime) -> dict[str, Any]:
    """Each address with its median seconds and its queries, and the plans that read all records."""
    settings.ALLOWED_HOSTS.append(HOST)
    client = Client()
    client.force_login(user)
    found: dict[str, Any] = {}
    scans: list[str] = []
    for address in addresses(start, end):
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code, answer.content[:300])
        statements = [query["sql"] for query in captured]
        scans += [f"{address}: {scan}" for statement in statements for scan in _scans(statement)]
        seconds = _median(lambda address=address: client.get(address))  # type: ignore[misc]
        found[address] = {"s": seconds, "queries": len(statements)}
    first_bytes = {
        address: round(statistics.median(asyncio.run(_first_bytes(user, address)) for _ in range(3)), 4)
        for address in ("/api/usage?format=csv", "/api/usage?format=csv&key_id=3")
    }
    return {
        "slowest_s": max(one["s"] for one in found.values()),
        "most_queries": max(one["queries"] for one in found.values()),
        "scans_of_records": scans,
        "csv_first_line_of_a_record_s": first_bytes,
        "addresses": found,
    }


async def _first_bytes(user: Any, address: str) -> float:
    """Until the first lines of records are there, not only the line of names."""
    client = AsyncClient()
    await client.aforce_login(user)
    began_ts = time.perf_counter()
    lines = aiter((await client.get(address)).streaming_content)
    await anext(lines)
    await anext(lines)
    return time.perf_counter() - began_ts


def _median(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(NUM_ROUNDS):
        began_ts = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began_ts)
    return round(statistics.median(taken), 4)


def _scans(statement: str) -> list[str]:
    """Months that the statement reads from end to end."""
    if "inference_generationrecord" not in statement or not statement.lstrip().startswith(("SELECT", "WITH")):
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE reltuples > %s AND relkind = 'r' "
            "AND relname LIKE 'inference_generationrecord%%'",
            [FEW_ROWS],
        )
        names = [name for (name,) in cursor.fetchall()]
        cursor.execute("EXPLAIN " + statement.replace("%", "%%"), [])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    return [name for name in names if f"Seq Scan on {name} " in plan]
