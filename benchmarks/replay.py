"""How fast is a policy replayed over a day's records, and what does a worker need for it?

    .venv/bin/python benchmarks/replay.py [--records 100000] [--texts 0.02] [--json OUT]

Starts a Postgres of its own in a temporary folder, loads --records records of the last 24 hours, a share
--texts of them with text of 2,000 characters, and replays three policies in this process, as a worker does:
one that reads what every record has, one that reads text, one that masks addresses. Records and seconds,
how often a slice was needed, and how much the process has grown.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# The checkout first: hooks.py of this folder is not the package.
sys.path[:0] = [str(CHECKOUT), str(Path(__file__).resolve().parent)]

_LOAD = """
INSERT INTO inference_generationrecord ({columns})
SELECT gen_random_uuid(), at, at + interval '2 s', now(), gen_random_uuid()::text,
    1 + n %% 40, 'user-' || n %% 40, 1 + n %% 200, 'key-' || n %% 200, 1 + n %% 7, 'team-' || n %% 7,
    'chat.completions', 'model-' || n %% 2, n %% 2 = 0, 'normal', '', false, '',
    jsonb_build_object('project', 'p' || n %% 50), NULL, 256, 100 + n %% 900, 0, 1 + n %% 256, 0, 0,
    0.1, 0.2, 0.01, 1.5, 'completed', 200, 'stop', '', '', '[]'
FROM (
    SELECT n, now() - interval '1 minute' - random() * interval '23 hours 50 minutes' AS at
    FROM generate_series(1, %(count)s) AS n
) AS made ORDER BY at
"""
_TEXTS = """
INSERT INTO inference_generationtext
    (record_id, created_at, expires_at, user_id, key_id, request, answer, previous_response_id)
SELECT id, created_at, now() + interval '1 day', user_id, key_id,
    json_build_object('model', model, 'messages', json_build_array(json_build_object(
        'role', 'user', 'content', repeat('some words of a question ', 80) || 'bob@example.org'
    )))::text, repeat('an answer ', 100), ''
FROM inference_generationrecord ORDER BY created_at LIMIT %s
"""


def fill(num_records: int, num_texts: int) -> None:
    from django.db import connection
    from django.utils import timezone

    from inference.ledger.partitions import partitions_ensure
    from inference.models import GenerationRecord

    partitions_ensure(connection=connection, now=timezone.now() - timedelta(days=1))
    names = [field.column for field in GenerationRecord._meta.concrete_fields]
    with connection.cursor() as cursor:
        cursor.execute(_LOAD.format(columns=", ".join(names)), {"count": num_records})
        cursor.execute(_TEXTS, [num_texts])
        cursor.execute("VACUUM ANALYZE")


def replayed(**members: Any) -> dict[str, Any]:
    from hooks.contracts.points import HookPoint
    from hooks.contracts.policies import Policy
    from hooks.models import HookReplay
    from hooks.services.replay_slices import replay_advance
    from hooks.services.replays import replay_create

    policy = Policy(policy_id=0, name="p", point=HookPoint.BEFORE, **members)
    row = replay_create(policy=policy, span="day", looks_at_texts=True, is_draft=True)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, began_cpu, longest, num_slices = time.perf_counter(), time.process_time(), 0.0, 0
    while True:
        slice_began = time.perf_counter()
        goes_on = replay_advance(replay_id=row.pk)
        longest, num_slices = max(longest, time.perf_counter() - slice_began), num_slices + 1
        if not goes_on:
            break
    elapsed = time.perf_counter() - began
    done = HookReplay.objects.get(pk=row.pk)
    assert done.state == "done", done.reason
    num = done.tally["num_records"]
    return {
        "records": num,
        "full": done.tally["num_full"],
        "by_condition": done.tally["num_by_condition"],
        "matched": done.tally["num_matched"],
        "s": round(elapsed, 2),
        "cpu_s": round(time.process_time() - began_cpu, 2),
        "records_per_s": round(num / elapsed),
        "slices": num_slices,
        "longest_slice_s": round(longest, 2),
        "grown_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024, 1),
    }


def measure(num_records: int, share: float) -> dict[str, Any]:
    from hooks.contracts.actions import Deny, MaskKind, MaskText, TextTarget

    num_texts = int(num_records * share)
    fill(num_records, num_texts)
    deny = (Deny("no"),)
    return {
        "records": num_records,
        "texts": num_texts,
        "record_alone": replayed(
            condition='principal.team == "team-3" && request.metadata["project"] == "p7"', actions=deny
        ),
        "words_in_text": replayed(
            condition='has_word(text.input, ["salary", "question"]) || request.stream', actions=deny
        ),
        "masks": replayed(actions=(MaskText((TextTarget.INPUT,), (MaskKind.EMAIL,)),)),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--texts", type=float, default=0.02, help="share of the records that have their text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    from servers import write_results
    from temporary_services import temporary_services

    with temporary_services():
        found = measure(options.records, options.texts)
    print(json.dumps(found, indent=1))
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
