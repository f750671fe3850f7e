"""How long do the pages of decisions and of policies take over a million records, half of them decided about?

    .venv/bin/python benchmarks/decisions.py [--records 1000000] [--json OUT] [--explain]

Starts a Postgres of its own in a temporary folder, loads --records records of the last three days, of which
every second one has decisions, and 200 policies, one of which decides once in a hundred thousand. One
team, user and key have a quarter of all records and no decision. Asks for
the page of decisions with each of its filters, for the list of policies and for the page on which they are
tried: seconds (the median of five), what this process and Postgres computed for it, and queries. --explain
prints the plans of what was slow.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# The checkout first: hooks.py of this folder is not the package.
sys.path[:0] = [str(CHECKOUT), str(Path(__file__).resolve().parent)]

NUM_DAYS = 3
NUM_POLICIES = 200
RARE = 200
ROUNDS = 3
SLOW_S = 0.3
_DECISIONS = """CASE WHEN n %% 2 = 0 THEN '[]'::jsonb ELSE jsonb_build_array(jsonb_build_object(
        'policy', 'policy-' || policy, 'policy_id', policy, 'point', 'before_chat_completion',
        'actions', jsonb_build_array(CASE WHEN policy %% 2 = 0 THEN 'deny' ELSE 'mask_text' END),
        'result', CASE WHEN policy %% 3 = 0 THEN 'observed' ELSE 'applied' END, 'reason', '',
        'choice', NULL, 'elapsed_ms', random() * 3, 'injected_tokens', 0, 'discarded_tokens', 0
    )) END"""
_LOAD = """
INSERT INTO inference_generationrecord ({columns})
SELECT gen_random_uuid(), at, at + interval '2 s', now(), gen_random_uuid()::text,
    CASE WHEN n %% 4 = 0 THEN 41 ELSE 1 + n %% 40 END, 'user',
    CASE WHEN n %% 4 = 0 THEN 201 ELSE 1 + n %% 200 END, 'key',
    CASE WHEN n %% 4 = 0 THEN 8 ELSE 1 + n %% 7 END, 'team',
    'chat.completions', CASE WHEN n %% 50000 = 3 THEN 'model-rare' ELSE 'model-' || n %% 2 END, n %% 2 = 0,
    'normal', '', false, '', '{{}}', NULL, 256, 100 + n %% 900, 0, n %% 256, 0, 0, 0.1, 0.2, 0.01, 1.5,
    'completed', 200, 'stop', '', '', {decisions}
FROM (
    SELECT n, CASE WHEN n %% 100000 = 5 THEN {rare} ELSE 1 + (n / 2) %% 150 END AS policy,
        now() - random() * %(length)s::interval AS at
    FROM generate_series(1, %(count)s) AS n
) AS made ORDER BY at
"""


def fill(num_records: int) -> float:
    from django.db import connection
    from django.utils import timezone
    from usage import timed

    from hooks.models import HookPolicy
    from inference.ledger.partitions import partitions_ensure
    from inference.models import GenerationRecord

    partitions_ensure(connection=connection, now=timezone.now())
    HookPolicy.objects.bulk_create(
        [
            HookPolicy(name=f"policy-{number}", actions=[{"type": "tag", "name": "t"}])
            for number in range(1, NUM_POLICIES + 1)
        ]
    )
    names = ", ".join([field.column for field in GenerationRecord._meta.concrete_fields])
    given = {"length": timedelta(days=NUM_DAYS), "count": num_records}

    def load() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_LOAD.format(columns=names, decisions=_DECISIONS, rare=RARE), given)
            cursor.execute("VACUUM ANALYZE")

    return timed(load)


def drop_owner_indexes() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        for owner in ("key", "user", "team"):
            cursor.execute(f"DROP INDEX record_{owner}_decided")


def addresses() -> list[str]:
    page = "/console/decisions/"
    from django.utils import timezone

    middle = f"after={int((timezone.now() - timedelta(days=1.5)).timestamp() * 1e6)}"
    first = timezone.now() - timedelta(days=NUM_DAYS)
    whole = f"range=custom&from={first:%Y-%m-%d}&to={timezone.now():%Y-%m-%d}"
    return [
        page,
        *(
            f"{page}?{whole}{more}"
            for more in (
                "",
                "&policy=1",
                f"&policy={RARE}",
                "&policy=999",
                "&point=terminal",
                "&result=failed_closed",
                "&action=deny",
                "&action=stop_generation&result=applied",
                "&user=3",
                "&key=4",
                "&team=3",
                f"&team=3&policy={RARE}",
                f"&key=4&policy={RARE}",
                "&team=8",
                "&team=8&policy=1",
                "&user=41",
                "&key=201&action=deny",
                "&model=model-1",
                "&model=model-rare",
                f"&model=model-rare&policy={RARE}",
                f"&{middle}",
                f"&{middle}&policy={RARE}",
            )
        ),
        "/admin/hooks/hookpolicy/",
        "/admin/hooks/hookpolicy/?mode__exact=off",
        "/admin/hooks/hookpolicy/1/change/",
        "/admin/hooks/hookpolicy/try/",
        "/admin/hooks/hookpolicy/replays/",
    ]


def explained(paths: list[str], user: Any) -> None:
    """Plans of the statements of these pages."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client()
    client.force_login(user)
    for path in paths:
        with CaptureQueriesContext(connection) as captured:
            client.get(path)
        for one in captured:
            if float(one["time"]) < SLOW_S / 3 or "hook_decisions" not in one["sql"]:
                continue
            print(path, one["time"], one["sql"][:1500], sep="\n")
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + one["sql"].replace("%", "%%"))
                print("\n".join([line for (line,) in cursor.fetchall()]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("--without-owner-indexes", action="store_true", help="as it would be without them")
    options = parser.parse_args()

    from servers import write_results
    from temporary_services import temporary_services

    with temporary_services():
        from console import measure_pages
        from usage_doors import make_accounts

        operator = make_accounts(num_users=41, num_keys=201, num_teams=8)
        found: dict[str, Any] = {"records": options.records, "load_s": fill(options.records)}
        if options.without_owner_indexes:
            drop_owner_indexes()
        pages = found["pages"] = measure_pages(operator, addresses(), rounds=ROUNDS)
        found["slowest_s"] = max(one["s"] for one in pages.values())
        found["most_cpu_s"] = max(one["cpu_s"] for one in pages.values())
        found["most_queries"] = max(one["queries"] for one in pages.values())
        if options.explain:
            explained([path for path, one in pages.items() if one["cpu_s"] > SLOW_S], operator)
    print(json.dumps(found, indent=1))
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
