#!/usr/bin/env python3
"""What does the adaptive limit do on the real engine?

    .venv/bin/python benchmarks/adaptive_engine.py TINY.gguf [--seconds 75] [--fixed-s 15] [--write]

TINY is a model whose weights cost nothing (`tests.model.tiny_model.write_tiny_model`). Twice as many clients
as there are lanes always ask for more, requests of mixed sizes (exchanges.py), of three servers in
turn: one whose limit is fixed at its lanes, one whose limit adapts and starts there, and one whose
limit starts at a quarter of them. Between the long runs of the adaptive ones the fixed one is measured
again, since the machine is not always the same. Reported of each: output tokens per second, and the
seconds from lane to end; of the adaptive ones without their first third, in which they find
their way. --write puts the result beside this file, and the limit over time as a picture.
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
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

from exchanges import Exchange, Mix, exchange  # noqa: E402
from load import quantile  # noqa: E402
from observed_server import read_watch, until_idle  # noqa: E402
from servers import Server, Sizes, start_ours, write_results  # noqa: E402

from benchmarks.adaptive_limit import picture  # noqa: E402

RESULTS = HERE / "results" / "adaptive_engine.json"
PICTURE = HERE / "results" / "adaptive_engine.svg"
ADAPTED = "stage.openai_generation_concurrency_adapt"
PREFIX = "llama_stage.generation_concurrency_"
COLOURS = ("#1f77b4", "#d62728")
WARM_S = 2.0


@dataclass
class Subject:
    """A server, and what was seen of it: its limits over time, and its decisions."""

    server: Server
    home: Path
    start_limit: int
    tokens_per_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    limits: list[tuple[float, int]] = field(default_factory=list)
    decisions: Counter[str] = field(default_factory=Counter)

    async def read(self) -> dict[str, Any]:
        return await asyncio.to_thread(read_watch, self.home)


async def load(subject: Subject, *, clients: int, first_s: float, seconds: float, seed: int) -> None:
    """`first_s` do not count but for the picture, then `seconds` do."""
    mix = Mix(subject.server, seed=seed)
    ended: list[Exchange] = []

    async def client() -> None:
        while True:
            ended.append(await exchange(subject.server.port, mix.request()))

    await subject.read()
    begin_ts = time.monotonic()
    tasks = [asyncio.create_task(client()) for _ in range(clients)]
    await asyncio.sleep(first_s)
    before, num_before = await subject.read(), len(ended)
    await asyncio.sleep(seconds)
    after = await subject.read()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tokens = after["num_generated_tokens"] - before["num_generated_tokens"]
    subject.tokens_per_s.append(tokens / (after["now_ts"] - before["now_ts"]))
    for one in ended[num_before:]:
        if not one.is_whole or one.status_ts is None or one.end_ts is None:
            raise SystemExit(f"a request was not served: {one}")
        # Headers go out when the lane is there.
        subject.latency_s.append(one.end_ts - one.status_ts)
    subject.limits.append((0.0, subject.start_limit))
    for at_ts, name, told in [*before["events"], *after["events"]]:
        if name == ADAPTED:
            subject.decisions[f"{told[PREFIX + 'action']}/{told[PREFIX + 'reason']}"] += 1
            subject.limits.append((at_ts - begin_ts, told[PREFIX + "current"]))
    subject.limits.append((after["now_ts"] - begin_ts, subject.limits[-1][1]))
    await until_idle(subject.home)


def told_of(subject: Subject) -> dict[str, Any]:
    end_s = subject.limits[-1][0]
    ends = [at_s for at_s, _ in subject.limits[1:]]
    area = sum(
        limit * (end - max(at_s, end_s / 3))
        for (at_s, limit), end in zip(subject.limits, ends, strict=False)
        if end > end_s / 3
    )
    return {
        "tokens_per_s": [round(one, 1) for one in subject.tokens_per_s],
        "latency_s_p50": round(quantile(subject.latency_s, 0.5), 3),
        "latency_s_p95": round(quantile(subject.latency_s, 0.95), 3),
        "mean_limit": round(area / (end_s * 2 / 3), 2),
        "decisions": dict(subject.decisions.most_common()),
    }


async def run(fixed: Subject, adaptive: dict[str, Subject], args: Namespace) -> dict[str, Any]:
    clients, seed = 2 * args.lanes, 1

    async def measure_fixed() -> None:
        nonlocal seed
        seed += 1
        fixed.limits.clear()
        await load(fixed, clients=clients, first_s=WARM_S, seconds=args.fixed_s, seed=seed)
        print(f"fixed: {fixed.tokens_per_s[-1]:.0f} tokens per second", flush=True)

    await measure_fixed()
    for name, subject in adaptive.items():
        seed += 1
        first_s = args.seconds / 3
        await load(subject, clients=clients, first_s=first_s, seconds=args.seconds - first_s, seed=seed)
        print(f"{name}: {json.dumps(told_of(subject))}", flush=True)
        await measure_fixed()
    found = {"fixed": told_of(fixed)} | {name: told_of(subject) for name, subject in adaptive.items()}
    base = statistics.median(fixed.tokens_per_s)
    for name, subject in adaptive.items():
        found[name]["tokens_per_s_by_fixed"] = round(subject.tokens_per_s[0] / base, 3)
        found[name]["limits"] = [(round(at_s, 2), limit) for at_s, limit in subject.limits]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--seconds", type=float, default=75.0, help="of each adaptive run")
    parser.add_argument("--fixed-s", type=float, default=15.0, help="of each run with the fixed limit")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--server", default="daphne", choices=("daphne", "uvicorn"))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sizes = Sizes(args.threads, args.lanes, args.context)
    with tempfile.TemporaryDirectory(prefix="skippy-bench-") as folder, ExitStack() as stack:

        def start(name: str, limit: int, *, is_adaptive: bool) -> Subject:
            home = Path(folder) / name
            settings = {"SKIPPY_ADAPTIVE_INITIAL_LIMIT": str(limit)}
            settings["SKIPPY_ADAPTIVE_CONCURRENCY"] = str(is_adaptive).lower()
            command = ("benchmarks/observed_server.py", "serve", "product")
            server = start_ours(
                args.model.resolve(), home, sizes, server=args.server, command=command, settings=settings
            )
            stack.callback(server.stop)
            return Subject(server, home, limit)

        lanes = args.lanes
        fixed = start("fixed", lanes, is_adaptive=False)
        adaptive = {
            f"from {limit}": start(f"from-{limit}", limit, is_adaptive=True) for limit in (lanes, lanes // 4)
        }
        found = asyncio.run(run(fixed, adaptive, args))
    if args.write:
        write_results(RESULTS, {"lanes": lanes, **found})
        title = f"Requests at once over {args.seconds:g} s, real engine, {lanes} lanes, {2 * lanes} clients"
        colours = dict(zip(adaptive, COLOURS, strict=True))
        PICTURE.write_text(picture(title, {name: one.limits for name, one in adaptive.items()}, colours))
    return 0


if __name__ == "__main__":
    sys.exit(main())
