#!/usr/bin/env python3
"""Is everything in the books, whatever dies? Thousands of requests while the service is killed under them.

    .venv/bin/python benchmarks/ledger_kills.py TINY.gguf [--requests 5000] [--clients 24] [--seed 1] \\
        [--kill server,postgres,worker,postgres,server,worker] [--json OUT]

TINY is a model whose weights cost nothing (`tests.model.tiny_model.write_tiny_model`). Its clients ask for
mixed sizes, streamed and whole, under both endpoints; some leave in the middle, some are refused: by
each kind of limit, for a wrong body, model or key. Meanwhile those that --kill names are killed with SIGKILL,
at moments that are spread over the run (`server+postgres`: both at once), and the worker is told to
aggregate several times a second. Afterwards, by ledger_audit.py:

    - each answer that its client saw whole, by `[DONE]` or as a body, is on record with the same usage;
    - each other request that passed authentication has exactly one record, its output between 0 and what
      was asked. Which these are is told by the journals, whose files are kept by a second name: a request
      whose server died before it was authenticated has none;
    - records equal hourly usage equal /v1/usage equal CSV, by key; a rebuild changes nothing;
    - nothing is reserved of any limit, and each budget is the sum of its records: 0 drift;
    - no file of the service has the secret part of a key: logs, journals, tables, Postgres's own log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
sys.path[:0] = [str(CHECKOUT), str(HERE)]

from attempts import Attempt, Plans, attempt  # noqa: E402
from servers import write_results  # noqa: E402

from tests.integration.supervisor.running_service import RunningService  # noqa: E402

KILLED = "server,postgres,worker,postgres,server,worker"
AGGREGATE_EVERY_S = 0.3
LINK_EVERY_S = 0.1
# A dead process's reservations are refunded 10 to 12 s after it was last seen.
REST_PATIENCE_S = 60.0
START_PATIENCE_S = 120.0
# After a connection that was refused or broken off, and after a 503: the service is starting again.
PAUSE_S = 0.1
LONG_PAUSE_S = 0.5


@dataclass
class Keys:
    """Plaintexts, and how often each is drawn."""

    plaintexts: dict[int, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, key_id: int, plaintext: str, weight: float) -> None:
        self.plaintexts[key_id] = plaintext
        self.names.append(plaintext)
        self.weights.append(weight)

    def draw(self, by: random.Random) -> str:
        return by.choices(self.names, self.weights)[0]


def make_keys() -> Keys:
    """Keys without limits, with limits of key, user and team that nobody reaches, and with such as are
    reached soon; and a key that nobody made."""
    from accounts import services
    from accounts.contracts import Limits

    wide = Limits(
        max_requests_per_minute=10**6,
        max_tokens_per_minute=10**8,
        max_parallel_requests=10**4,
        max_tokens_per_day=10**10,
        max_tokens_per_week=10**10,
        max_tokens_per_month=10**10,
    )
    keys = Keys()

    def add(name: str, weight: float, limits: Limits | None) -> None:
        user = services.user_ensure(username=name)
        more: dict[str, Any] = {} if limits is None else {"limits": limits}
        row, minted = services.api_key_create(user=user, name=name, **more)
        keys.add(row.pk, minted.plaintext, weight)

    add("free", 0.4, None)
    member = services.user_ensure(username="counted")
    services.user_policy_set(user=member, policy=services.NO_POLICY, limits=wide)
    services.user_team_set(user=member, team=services.team_create(name="team", limits=wide))
    add("counted", 0.37, wide)
    add("requests", 0.05, Limits(max_requests_per_minute=60))
    add("tokens", 0.05, Limits(max_tokens_per_minute=2000))
    add("parallel", 0.05, Limits(max_parallel_requests=1))
    add("spent", 0.05, Limits(max_tokens_per_day=3000))
    keys.names.append("sk-skippy-" + "0" * 49)
    keys.weights.append(0.03)
    return keys


class Load:
    """Clients that ask until so many requests have reached the service."""

    def __init__(self, port: int, keys: Keys, *, num_requests: int, seed: int) -> None:
        self._port = port
        self._keys = keys
        self._num_requests = num_requests
        self._plans = Plans("tiny", seed)
        self._draw = random.Random(seed)
        self.attempts: list[Attempt] = []
        self.num_turned_away = 0

    async def run(self, num_clients: int) -> None:
        await asyncio.gather(*(self._client() for _ in range(num_clients)))

    async def _client(self) -> None:
        while len(self.attempts) < self._num_requests:
            seen = await attempt(self._port, self._keys.draw(self._draw), self._plans.next())
            if seen.is_connected:
                self.attempts.append(seen)
            else:
                self.num_turned_away += 1
            if seen.status == 503:
                await asyncio.sleep(LONG_PAUSE_S)
            elif not seen.status and not seen.has_left:
                await asyncio.sleep(PAUSE_S)


@dataclass
class Hands:
    """What is done to the service meanwhile."""

    service: RunningService
    journals: Path
    killed: list[dict[str, Any]] = field(default_factory=list)
    num_told: int = 0

    async def keep_journals(self) -> None:
        """Give each journal a second name, so that it can be read when its service has removed it."""
        while True:
            for path in self.service.state.journal.glob("*.journal"):
                kept = self.journals / path.name
                if not kept.exists():
                    os.link(path, kept)
            await asyncio.sleep(LINK_EVERY_S)

    async def kill_in_turn(self, load: Load, num_requests: int, together: Sequence[Sequence[str]]) -> None:
        for number, roles in enumerate(together, start=1):
            goal = num_requests * number // (len(together) + 1)
            while len(load.attempts) < goal or not all(map(self.service.has, roles)):
                await asyncio.sleep(0.01)
            for role in roles:
                self.service.kill(role)
            self.killed.append({"roles": roles, "after_requests": len(load.attempts)})

    def tell_to_aggregate(self, stop: threading.Event) -> None:
        """Far more often than beat does, so that every kill of worker and Postgres meets it at work."""
        from inference.usage.tasks import AGGREGATE
        from skippy_site.celery import app

        while not stop.wait(AGGREGATE_EVERY_S):
            app.send_task(AGGREGATE)
            self.num_told += 1


async def drive(service: RunningService, load: Load, hands: Hands, options: argparse.Namespace) -> float:
    """Seconds that it took."""
    began_ts = time.monotonic()
    together = [roles.split("+") for roles in options.kill.split(",")]
    keeping = asyncio.create_task(hands.keep_journals())
    killing = asyncio.create_task(hands.kill_in_turn(load, options.requests, together))
    await load.run(options.clients)
    await killing
    took_s = time.monotonic() - began_ts
    await asyncio.sleep(2 * LINK_EVERY_S)
    keeping.cancel()
    return took_s


def until(
    is_true: Callable[[], bool], what: str, wrong: list[str], patience_s: float = REST_PATIENCE_S
) -> None:
    deadline_ts = time.monotonic() + patience_s
    while time.monotonic() < deadline_ts:
        if is_true():
            return
        time.sleep(0.2)
    wrong.append(f"not within {patience_s:g} s: {what}")


def judge(service: RunningService, load: Load, keys: Keys, journals: Sequence[Path]) -> dict[str, Any]:
    import ledger_audit as audit
    from django.db import connection

    wrong: list[str] = []
    own_journals = service.state.journal
    until(lambda: len(list(own_journals.glob("*.journal"))) == 1, "dead journals are read", wrong)
    until(
        lambda: (
            {one.request_id for one in load.attempts} & audit.opened_ids(journals)
            <= audit.read_records().keys()
        ),
        "all that was opened is on record",
        wrong,
        patience_s=15.0,
    )
    until(lambda: not audit.rows("SELECT 1 FROM inference_usagepending LIMIT 1"), "all is aggregated", wrong)
    until(audit.limits_at_rest, "limits are at rest", wrong, patience_s=20.0)
    records = audit.read_records()
    opened = audit.opened_ids(journals)
    of_attempts = audit.judge_attempts(load.attempts, records, opened)
    of_sums = audit.judge_sums(service.port, keys.plaintexts)
    drift, of_limits = audit.judge_limits()
    hours = (
        "SELECT hour, key_id, endpoint, model, outcome, num_requests, num_output_tokens, total_counts "
        "FROM inference_usagebucket ORDER BY 1, 2, 3, 4, 5"
    )
    before = audit.rows(hours)
    audit.command("usage_rebuild", "--from", "2020-01-01")
    if audit.rows(hours) != before:
        wrong.append("a rebuild makes other hours of the same records")
    connection.close()
    of_secrecy = audit.judge_secrecy([service.state.root, journals[0].parent], keys.plaintexts.values())
    wrong += of_attempts + of_sums + of_limits + of_secrecy
    whole = [one for one in load.attempts if one.is_whole and not one.has_error]
    return {
        "requests": len(load.attempts),
        "turned_away_while_no_server_listened": load.num_turned_away,
        "passed_authentication": len(opened),
        "records": sum(map(len, records.values())),
        "outcomes": audit.outcomes(records),
        "whole_answers": len(whole),
        "whole_answers_with_usage_seen": sum(one.usage is not None for one in whole),
        "clients_that_left": sum(one.has_left for one in load.attempts),
        "refused": {
            str(status): sum(one.status == status for one in load.attempts)
            for status in sorted({one.status for one in load.attempts if one.status > 200})
        },
        "no_status_seen": sum(not one.status for one in load.attempts),
        "usage_or_number_of_records_differs": len(of_attempts),
        "sums_differ": len(of_sums),
        "drift_of_limits": drift,
        "files_with_secrets": len(of_secrecy),
        "num_wrong": len(wrong),
        "wrong": [one[:400] for one in wrong[: audit.SHOWN]],
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill", default=KILLED)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="skippy-kills-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        journals = folder / "journals"
        journals.mkdir()
        service = RunningService(
            folder / "home",
            environment={
                "SKIPPY_MODEL": str(options.model.resolve()),
                "SKIPPY_MODEL_ID": "tiny",
                "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "1000"),
            },
            arguments=("manage.py", "serve"),
        )
        try:
            service.start(limit_s=START_PATIENCE_S)
            os.environ["SKIPPY_HOME"] = str(service.state.root)
            os.environ["DJANGO_SETTINGS_MODULE"] = "skippy_site.settings"
            import django

            django.setup()
            from django.db import connections

            keys = make_keys()
            connections.close_all()
            hands, stop = Hands(service, journals), threading.Event()
            load = Load(service.port, keys, num_requests=options.requests, seed=options.seed)
            telling = threading.Thread(target=hands.tell_to_aggregate, args=(stop,))
            telling.start()
            took_s = asyncio.run(drive(service, load, hands, options))
            found = judge(service, load, keys, list(journals.iterdir()))
            stop.set()
            telling.join()
            found = {
                "took_s": round(took_s, 1),
                "killed": hands.killed,
                "told_to_aggregate": hands.num_told,
                **found,
            }
            connections.close_all()
            for one in connections.all(initialized_only=True):
                one.close_pool()
            found["exit_code"] = service.stop(limit_s=60)
        finally:
            service.close()
    print(json.dumps(found, indent=1))
    if options.json:
        write_results(options.json, found)
    return 1 if found["num_wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
