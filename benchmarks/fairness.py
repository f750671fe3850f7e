#!/usr/bin/env python3
"""Does one user with many clients keep another one waiting?

    .venv/bin/python benchmarks/fairness.py TINY.gguf [--rounds 3] [--window-s 10] [--clients 50] \
        [--lanes 16] [--server daphne] [--json OUT]

TINY is a model whose weights cost nothing (`tests.model.tiny_model.write_tiny_model`). The many clients of
one user always ask for more, with requests of mixed sizes (exchanges.py); the single client of another
user asks one thing after the other. Measured is the single client's time to first token, in three
settings, in interleaved rounds:

    lanes - 1    the other user has just enough clients to fill all lanes but one
    many         the other user has --clients
    by arrival   the same, in a server of ours whose queue, in that process only, is first come, first
                 served (observed_server.py)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from exchanges import Mix, exchange  # noqa: E402
from load import quantile  # noqa: E402
from observed_server import until_idle  # noqa: E402
from servers import Server, Sizes, create_key, start_ours, write_results  # noqa: E402

WARM_S = 3.0
# Its answers are short, so that it asks often.
SINGLE_TOKENS = (8,)


@dataclass
class Setting:
    """A server, and how many clients the user with many has there."""

    title: str
    server: Server
    home: Path
    single_key: str
    num_clients: int


async def measure(setting: Setting, seconds: float, seed: int) -> list[float]:
    """Times to first token of the single client, in seconds."""
    server = setting.server
    many, single = Mix(server, seed=seed), Mix(server, max_tokens=SINGLE_TOKENS, seed=seed + 1)

    async def client() -> None:
        while True:
            found = await exchange(server.port, many.request())
            if not found.is_whole:
                raise SystemExit(f"{setting.title}: the user with many clients was not served: {found}")

    tasks = [asyncio.create_task(client()) for _ in range(setting.num_clients)]
    await asyncio.sleep(WARM_S)
    found = []
    end_ts = time.monotonic() + seconds
    while time.monotonic() < end_ts:
        answer = await exchange(server.port, single.request(setting.single_key))
        if answer.ttft_s is None:
            raise SystemExit(f"{setting.title}: the single client was not served: {answer}")
        found.append(answer.ttft_s)
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until_idle(setting.home)
    return found


async def run(settings: list[Setting], args: Namespace) -> dict[str, Any]:
    rows: dict[str, list[list[float]]] = {setting.title: [] for setting in settings}
    for number in range(args.rounds):
        shift = number % len(settings)
        for setting in settings[shift:] + settings[:shift]:
            found = await measure(setting, args.window_s, 1000 + 10 * number)
            rows[setting.title].append(found)
            median = statistics.median(found)
            print(f"round {number + 1}, {setting.title}: {len(found)} answers, {median:.3f} s", flush=True)
    few, many, by_arrival = (rows[setting.title] for setting in settings)
    return {
        "ttft_s": {title: ttft(found) for title, found in rows.items()},
        "many_by_few": ratio(many, few),
        "many_by_arrival": ratio(many, by_arrival),
    }


def ttft(rounds: list[list[float]]) -> dict[str, Any]:
    """Of all rounds together; the median of each round, too."""
    together = [value for found in rounds for value in found]
    return {
        "num_answers": len(together),
        "p50": round(statistics.median(together), 4),
        "p95": round(quantile(together, 0.95), 4),
        "p50_of_rounds": [round(statistics.median(found), 4) for found in rounds],
    }


def ratio(ones: list[list[float]], others: list[list[float]]) -> dict[str, float]:
    """Of the rounds' medians."""
    found = [
        statistics.median(one) / statistics.median(other) for one, other in zip(ones, others, strict=True)
    ]
    return {
        "median": round(statistics.median(found), 3),
        "min": round(min(found), 3),
        "max": round(max(found), 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window-s", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--server", default="daphne", choices=("daphne", "uvicorn"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sizes = Sizes(args.threads, args.lanes, args.context)
    with tempfile.TemporaryDirectory(prefix="skippy-bench-") as folder, ExitStack() as stack:

        def start(order: str) -> tuple[Server, Path, str]:
            home = Path(folder) / order
            command = ("benchmarks/observed_server.py", "serve", order)
            server = start_ours(args.model.resolve(), home, sizes, server=args.server, command=command)
            stack.callback(server.stop)
            return server, home, create_key(home, "single")

        ours, by_arrival = start("product"), start("arrival")
        settings = [
            Setting("lanes - 1", *ours, args.lanes - 1),
            Setting("many", *ours, args.clients),
            Setting("by arrival", *by_arrival, args.clients),
        ]
        found = asyncio.run(run(settings, args))
    print(json.dumps(found, indent=1))
    if args.json:
        write_results(args.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
