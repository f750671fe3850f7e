#!/usr/bin/env python3
"""What becomes of the service when far more is asked than it can do?

    .venv/bin/python benchmarks/overload.py TINY.gguf [--rounds 5] [--level-s 8] [--burst-s 30] \
        [--parts levels,burst] [--admission-s 60] [--lanes 16] [--server daphne] [--json OUT]

TINY is a model whose weights cost nothing (`tests.model.tiny_model.write_tiny_model`): refusals then cost as
much as they can beside the work, on the same cores, and so do the clients (exchanges.py). Requests
of mixed sizes come at random (Poisson) at a rate that does not depend on how the service fares; its
capacity is what 2 × lanes clients get who always ask for more, measured first.

    levels   1, 2, 4 and 8 times the capacity, in interleaved rounds: output tokens per second of the
             engine, and how long the server took for its refusals, from the last byte of the body to the
             status, by its own clock (observed_server.py)
    burst    8 times the capacity for --burst-s, then half of it. Of those who were refused, a --return-share
             waits as told and tries once more, the others are gone: how many were served then, how long
             those waited who got a lane, and what they were foretold. A share of 1 is far more than
             half the capacity for the longest time that may be told
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from exchanges import Exchange, Mix, exchange  # noqa: E402
from load import quantile  # noqa: E402
from observed_server import read_watch, until_idle  # noqa: E402
from servers import Server, Sizes, start_ours, write_results  # noqa: E402

MULTIPLES = (1, 2, 4, 8)
WARM_S = 2.0
CALM_S = 30.0
ADMITTED = "stage.openai_generation_admit"
REFUSED_STATUS = 429


class Reader:
    """Readings of the server's watch, without holding up the clients."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def read(self) -> dict[str, Any]:
        return await asyncio.to_thread(read_watch, self._home)

    async def until_idle(self) -> None:
        await until_idle(self._home)


def tokens_per_s(before: dict[str, Any], after: dict[str, Any]) -> float:
    tokens: int = after["num_generated_tokens"] - before["num_generated_tokens"]
    return tokens / float(after["now_ts"] - before["now_ts"])


async def arrivals(rate: float, mix: Mix, tasks: set[asyncio.Task[Any]], start: Any) -> None:
    """Begin `start(request)` at random instants, `rate` times a second, until cancelled."""
    draw = random.Random(mix.seed)
    next_ts = time.monotonic()
    while True:
        next_ts += draw.expovariate(rate)
        await asyncio.sleep(max(next_ts - time.monotonic(), 0.0))
        tasks.add(asyncio.create_task(start(mix.request())))


async def cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def measure_capacity(server: Server, reader: Reader, clients: int, seconds: float) -> float:
    """Output tokens per second with so many clients that always ask for more."""
    mix = Mix(server, seed=1)

    async def client() -> None:
        while True:
            await exchange(server.port, mix.request())

    tasks = {asyncio.create_task(client()) for _ in range(clients)}
    await asyncio.sleep(WARM_S)
    before = await reader.read()
    await asyncio.sleep(seconds)
    after = await reader.read()
    await cancel(tasks)
    await reader.until_idle()
    return tokens_per_s(before, after)


async def measure_level(
    server: Server, reader: Reader, rate: float, seconds: float, seed: int
) -> dict[str, Any]:
    """One load for a while; who has not been answered by then is cut off."""
    mix = Mix(server, seed=seed)
    tasks: set[asyncio.Task[Exchange]] = set()

    async def start(request: bytes) -> Exchange:
        return await exchange(server.port, request)

    source = asyncio.create_task(arrivals(rate, mix, tasks, start))
    await asyncio.sleep(WARM_S)
    before = await reader.read()
    cpu_s, num_made = time.process_time(), mix.num_made
    await asyncio.sleep(seconds)
    after = await reader.read()
    cpu_s, num_made = time.process_time() - cpu_s, mix.num_made - num_made
    await cancel({source})
    exchanges = [task.result() for task in tasks if task.done() and not task.cancelled()]
    await cancel(tasks)
    await reader.until_idle()
    odd = [one for one in exchanges if one.status not in (200, REFUSED_STATUS) or one.has_error]
    if odd:
        raise SystemExit(f"an answer that should not be: {odd[0]}")
    refusals = [took_s for _, status, took_s in after["answers"] if status == REFUSED_STATUS]
    seen = [one.status_ts - one.begin_ts for one in exchanges if one.is_refused and one.status_ts]
    wall_s = after["now_ts"] - before["now_ts"]
    return {
        "tokens_per_s": round(tokens_per_s(before, after), 1),
        "num_offered": num_made,
        "num_refused": len(refusals),
        "refusal_ms_p50": milliseconds(refusals, 0.5),
        "refusal_ms_p95": milliseconds(refusals, 0.95),
        "refusal_ms_p50_seen_by_clients": milliseconds(seen, 0.5),
        "queue_wait_s_p95": round(quantile(waits(after["events"]), 0.95), 2),
        "cores_of_server": round((after["cpu_s"] - before["cpu_s"]) / wall_s, 2),
        "cores_of_clients": round(cpu_s / wall_s, 2),
    }


def milliseconds(values: Sequence[float], share: float) -> float | None:
    return round(1e3 * quantile(list(values), share), 2) if values else None


def waits(events: list[Any]) -> list[float]:
    """Seconds in the queue of all who got a lane."""
    return [told["llama_stage.elapsed_ms"] / 1e3 for _, name, told in events if name == ADMITTED]


async def measure_burst(server: Server, reader: Reader, rate: float, args: Namespace) -> dict[str, Any]:
    """8 times the capacity, then half, and what those find who come back when they were told to.

    `rate` is that of the capacity.
    """
    draw = random.Random(1)
    mix = Mix(server, seed=9)
    tasks: set[asyncio.Task[Any]] = set()
    tries: list[tuple[Exchange, Exchange]] = []
    firsts: list[Exchange] = []
    told: list[int] = []

    async def start(request: bytes) -> None:
        first = await exchange(server.port, request)
        firsts.append(first)
        if first.is_refused:
            if first.retry_after_s is None:
                raise SystemExit("a refusal without Retry-After")
            told.append(first.retry_after_s)
            if draw.random() >= args.return_share:
                return
            await asyncio.sleep(first.retry_after_s)
            tries.append((first, await exchange(server.port, request)))

    await reader.read()
    source = asyncio.create_task(arrivals(8 * rate, mix, tasks, start))
    await asyncio.sleep(args.burst_s)
    await cancel({source})
    calm_ts = time.monotonic()
    calm, calm_tasks = Mix(server, seed=10), set[asyncio.Task[Any]]()
    source = asyncio.create_task(arrivals(rate / 2, calm, calm_tasks, start))
    await asyncio.gather(*tasks, asyncio.sleep(CALM_S))
    await cancel({source})
    await cancel(calm_tasks)
    reading = await reader.read()
    return {
        "return_share": args.return_share,
        "num_in_burst": mix.num_made,
        "num_in_calm": calm.num_made,
        "num_served_at_first": sum(one.is_whole for one in firsts),
        "num_refused_at_first": len(told),
        "retry_after_s": {
            "p50": quantile(told, 0.5),
            "p95": quantile(told, 0.95),
            "max": max(told, default=0),
        },
        **judged(tries, reading["events"], calm_ts),
        "queue_wait_limit_s": args.admission_s,
    }


def judged(tries: list[tuple[Exchange, Exchange]], events: list[Any], calm_ts: float) -> dict[str, Any]:
    """What came of those who waited as they were told, by when they came back."""

    def share_served(chosen: list[tuple[Exchange, Exchange]]) -> float | None:
        return round(statistics.fmean(again.is_whole for _, again in chosen), 3) if chosen else None

    during = [pair for pair in tries if pair[1].begin_ts < calm_ts]
    after = [pair for pair in tries if pair[1].begin_ts >= calm_ts]
    # Named, by what had passed from the refusal until the answer of who came back as told began.
    named = [
        (first.retry_after_s or 0) / (again.status_ts - first.begin_ts)
        for first, again in tries
        if again.status == 200 and again.status_ts is not None
    ]
    waited = [
        (one["llama_stage.elapsed_ms"] / 1e3, one["llama_stage.generation_predicted_wait_ms"] / 1e3)
        for _, name, one in events
        if name == ADMITTED
        and one["skippy.admission.has_waited"]
        and "llama_stage.generation_predicted_wait_ms" in one
    ]
    real = waits(events)
    # Where the queue is as long as it is when others are refused.
    deep_s = 0.5 * max(real, default=0.0)
    foretold = [predicted / wait for wait, predicted in waited if wait >= deep_s]
    return {
        "num_back_during_burst": len(during),
        "share_served_of_those_back_during_burst": share_served(during),
        "num_back_after_burst": len(after),
        "share_served_of_those_back_after_burst": share_served(after),
        "named_by_true_wait_max": round(max(named, default=0.0), 2),
        "queue_wait_s": {
            "p50": round(quantile(real, 0.5), 2),
            "p95": round(quantile(real, 0.95), 2),
            "max": round(max(real, default=0.0), 2),
        },
        "foretold_by_true_queue_wait_of_the_longest": {
            "p05": round(quantile(foretold, 0.05), 2),
            "p50": round(quantile(foretold, 0.5), 2),
            "p95": round(quantile(foretold, 0.95), 2),
            "max": round(max(foretold, default=0.0), 2),
        },
    }


async def run(server: Server, home: Path, args: Namespace) -> dict[str, Any]:
    reader = Reader(home)
    mean_tokens = Mix(server).mean_tokens
    capacity = await measure_capacity(server, reader, 2 * args.lanes, args.level_s)
    rate = capacity / mean_tokens
    print(f"capacity: {capacity:.0f} output tokens per second, {rate:.1f} requests per second", flush=True)
    found: dict[str, Any] = {"capacity_tokens_per_s": round(capacity, 1), "requests_per_s": round(rate, 2)}
    parts = args.parts.split(",")
    if "levels" in parts:
        rows: dict[int, list[dict[str, Any]]] = {multiple: [] for multiple in MULTIPLES}
        for number in range(args.rounds):
            shift = number % len(MULTIPLES)
            for multiple in MULTIPLES[shift:] + MULTIPLES[:shift]:
                seed = 100 + 10 * number + multiple
                row = await measure_level(server, reader, multiple * rate, args.level_s, seed)
                rows[multiple].append(row)
                print(f"round {number + 1}, {multiple} times: {json.dumps(row)}", flush=True)
        found["levels"] = {str(multiple): summary(rows[multiple]) for multiple in MULTIPLES}
        best = max(one["tokens_per_s"]["median"] for one in found["levels"].values())
        found["8_times_by_best"] = round(found["levels"]["8"]["tokens_per_s"]["median"] / best, 3)
    if "burst" in parts:
        found["burst"] = await measure_burst(server, reader, rate, args)
    return found


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and range of each number over the rounds."""
    found: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            found[name] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--parts", default="levels,burst")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--level-s", type=float, default=8.0, help="seconds that count of each level")
    parser.add_argument("--burst-s", type=float, default=30.0)
    parser.add_argument("--return-share", type=float, default=0.1)
    parser.add_argument("--admission-s", type=float, default=60.0, help="SKIPPY_ADMISSION_TIMEOUT_S")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--server", default="daphne", choices=("daphne", "uvicorn"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sizes = Sizes(args.threads, args.lanes, args.context)
    with tempfile.TemporaryDirectory(prefix="skippy-bench-") as folder:
        home = Path(folder)
        server = start_ours(
            args.model.resolve(),
            home,
            sizes,
            server=args.server,
            command=("benchmarks/observed_server.py", "serve", "product"),
            settings={"SKIPPY_ADMISSION_TIMEOUT_S": str(args.admission_s)},
        )
        try:
            found = asyncio.run(run(server, home, args))
        finally:
            server.stop()
    print(json.dumps(found, indent=1))
    if args.json:
        write_results(args.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
