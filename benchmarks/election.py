"""How long does an election take where many long prompts wait?

    .venv/bin/python benchmarks/election.py [--elections 200] [--write]

256 requests wait, with prompts of 4,000 tokens each. One after the other is elected by the real admission
with the real prefix cache's answers, released at once, and replaced by a new one, so that every
election finds 256 waiters and a cache that has changed. After 31 of them admission is made anew: with the
32nd turn the longest waiting one goes without any ranking, which takes no time. Four cases:

    cold        the prompts share 90 %, the cache is empty
    hot         the same, and the cache has 64 answered prompts and 16 running ones that begin alike
    users       as hot, with the waiters of 16 users
    nested      each prompt parts from the one before it one token later

It also times `submit`, which sorts the newcomer in, on the event loop's side. Milliseconds, median and
95th percentile. --write puts the result beside this file.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from inference.admission.bypass_bound import MAX_BYPASSES  # noqa: E402
from inference.admission.concurrency import ConcurrencySettings  # noqa: E402
from inference.admission.controller import AdmissionController  # noqa: E402
from inference.domain.admission import Submission  # noqa: E402
from inference.domain.clock import SystemClock  # noqa: E402
from inference.domain.requests import GenerationRequest  # noqa: E402
from inference.engine.prefix_cache import PrefixCache  # noqa: E402
from skippy_site.provision.cpu_features import read_cpu  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "election.json"
NUM_WAITING, NUM_TOKENS, NUM_SHARED, VOCABULARY = 256, 4000, 3600, 49_152
NUM_LANES, NUM_CELLS = 64, 10**7

Prompt = tuple[int, ...]


@dataclass(frozen=True)
class Spread:
    median_ms: float
    p95_ms: float

    @classmethod
    def of(cls, durations_s: list[float]) -> Spread:
        in_order = sorted(durations_s)
        p95_s = in_order[int(0.95 * (len(in_order) - 1))]
        return cls(round(1000 * statistics.median(in_order), 3), round(1000 * p95_s, 3))


def alike(chance: random.Random) -> Iterator[Prompt]:
    common = [chance.randrange(VOCABULARY) for _ in range(NUM_SHARED)]
    while True:
        yield (*common, *(chance.randrange(VOCABULARY) for _ in range(NUM_TOKENS - NUM_SHARED)))


def nested(chance: random.Random) -> Iterator[Prompt]:
    common = [chance.randrange(VOCABULARY) for _ in range(NUM_TOKENS)]
    while True:
        at = chance.randrange(1, NUM_TOKENS)
        yield (*common[:at], *(chance.randrange(VOCABULARY) for _ in range(NUM_TOKENS - at)))


def make_cache(prompts: Iterator[Prompt], num_entries: int, num_running: int) -> PrefixCache:
    cache = PrefixCache(
        is_enabled=True,
        num_cells=NUM_CELLS,
        num_sequences=NUM_LANES + 64,
        max_entries=64,
        min_tokens=64,
        max_cells=NUM_CELLS,
    )
    for number in range(num_entries + num_running):
        tokens = np.array(next(prompts), dtype=np.int32)
        sequence_id = cache.open("", tokens)
        cache.grow(sequence_id, len(tokens))
        if number < num_entries:
            cache.retire(sequence_id, tokens)
    return cache


def measure(
    prompts: Iterator[Prompt], cache: PrefixCache, *, num_users: int
) -> tuple[list[float], list[float]]:
    """Durations of elections and submissions, in seconds."""
    admission = AdmissionController(
        num_lanes=NUM_LANES,
        max_waiting=NUM_WAITING,
        num_cells=NUM_CELLS,
        clock=SystemClock(),
        record=lambda event: None,
        concurrency=ConcurrencySettings(),
    )
    number = 0

    def submit() -> None:
        nonlocal number
        number += 1
        request = GenerationRequest(str(number), next(prompts), 256, user_id=number % num_users)
        timed(submits, lambda: admission.submit(Submission(request, object(), 0.0)))

    def timed(durations: list[float], work: Callable[[], object]) -> object:
        begin = time.perf_counter()
        result = work()
        durations.append(time.perf_counter() - begin)
        return result

    submits: list[float] = []
    elections: list[float] = []
    for _ in range(NUM_LANES):
        submit()
    running = [admission.elect(cache) for _ in range(NUM_LANES)]
    for _ in range(NUM_WAITING):
        submit()
    submits.clear()
    for _ in range(MAX_BYPASSES - 1):
        done = running.pop(0)
        assert done is not None
        done.release(num_output_tokens=10)
        elected = timed(elections, lambda: admission.elect(cache))
        assert elected is not None
        running.append(elected)  # type: ignore[arg-type]
        # What runs changes the cache, as in the engine.
        tokens = np.array(next(prompts), dtype=np.int32)
        sequence_id = cache.open("", tokens)
        cache.grow(sequence_id, NUM_SHARED)
        cache.retire(sequence_id, tokens[:NUM_SHARED])
        submit()
        assert admission.statistics().queue.num_waiting == NUM_WAITING
    return elections, submits


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--elections", type=int, default=200)
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    rounds = max(1, chosen.elections // MAX_BYPASSES)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for case, kind, num_entries, num_running, num_users in (
        ("cold", alike, 0, 0, 1),
        ("hot", alike, 64, 16, 1),
        ("users", alike, 64, 16, 16),
        ("nested", nested, 64, 16, 1),
    ):
        prompts = kind(random.Random(1))
        cache = make_cache(prompts, num_entries, num_running)
        elections, submits = [], []
        for _ in range(rounds):
            durations = measure(prompts, cache, num_users=num_users)
            elections += durations[0]
            submits += durations[1]
        found[case] = {"election": asdict(Spread.of(elections)), "submit": asdict(Spread.of(submits))}
        print(case, found[case])
    if chosen.write:
        result = {
            "command": "benchmarks/election.py",
            "cpu": read_cpu().model,
            "waiting": NUM_WAITING,
            "prompt_tokens": NUM_TOKENS,
            "shared_tokens": NUM_SHARED,
            "elections": rounds * (MAX_BYPASSES - 1),
            "milliseconds": found,
        }
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
