#!/usr/bin/env python3
"""What a hook that thinks for two seconds costs the streams beside it: the gaps between their tokens.

    .venv/bin/python benchmarks/hook_hold.py MODEL.gguf [--streams 4] [--seconds 10] [--rounds 3] [--json OUT]

The engine and its client in this process, `--streams` endless answers, and one more beside them:

    plain      which nobody listens to
    held       whose hook hears of every 32nd token, thinks for 2 s, and lets it go on
    injected   as held, and each time the hook puts 32 tokens in

The kinds take turns, `--rounds` times. Gaps are those of the other streams, from token to token as they come
on the event loop, in milliseconds: the median, the 99th percentile, the longest, and the median of those that
lie within a hold. A sequence that stands still is not in the batch, so the others should gain a little.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from servers import write_results  # noqa: E402

from inference.domain.backend import HoldReason  # noqa: E402
from inference.domain.clock import SystemClock  # noqa: E402
from inference.domain.events import Signals, TokenBatch  # noqa: E402
from inference.domain.requests import GenerationRequest, SamplingParams  # noqa: E402
from inference.domain.signals import SignalRequest, SignalRule  # noqa: E402
from inference.engine.client import EngineClient  # noqa: E402
from inference.engine.config import EngineConfig  # noqa: E402
from inference.engine.handle import EngineHandle  # noqa: E402
from inference.engine.llama import LlamaModel, LlamaRunner  # noqa: E402
from inference.engine.thread import EngineThread  # noqa: E402
from tests.unit.engine.scripted_engine_parts import FifoAdmission  # noqa: E402

THINKING_S = 2.0
HEARS_EVERY = 32
NUM_INJECTED = 32
KINDS = ("plain", "held", "injected")
ENDLESS = 1_000_000


@dataclass
class Round:
    """Instants (monotonic seconds) of one round: of each stream's tokens, and the ends of each hold."""

    tokens: list[list[float]]
    holds: list[tuple[float, float]] = field(default_factory=list)

    def gaps_ms(self) -> list[tuple[float, bool]]:
        """Each gap, and whether it lies within a hold."""
        found = []
        for instants in self.tokens:
            for before, after in pairwise(instants):
                is_within = any(begin <= before and after <= end for begin, end in self.holds)
                found.append((1e3 * (after - before), is_within))
        return found


def request(name: str, signals: SignalRequest | None = None) -> GenerationRequest:
    prompt = tuple(range(1000, 1040))
    sampling = SamplingParams(temperature=1.0, seed=len(name))
    return GenerationRequest(
        name, prompt, ENDLESS, sampling, ignore_eos=True, cache_namespace=name, signals=signals
    )


async def read(handle: EngineHandle, instants: list[float]) -> None:
    async for event in handle:
        if isinstance(event, TokenBatch):
            instants.append(time.monotonic())  # noqa: PERF401  each as it comes


async def hook(handle: EngineHandle, holds: list[tuple[float, float]], *, injects: bool) -> None:
    async for event in handle:
        if isinstance(event, Signals) and event.is_held:
            begin_ts = time.monotonic()
            await asyncio.sleep(THINKING_S)
            if injects:
                handle.inject(tuple(range(2000, 2000 + NUM_INJECTED)))
            handle.resume(HoldReason.HOOK)
            holds.append((begin_ts, time.monotonic()))


async def run_round(client: EngineClient, kind: str, num_streams: int, seconds: float) -> Round:
    made = Round([[] for _ in range(num_streams)])
    handles = [client.submit(request(f"stream {number}")) for number in range(num_streams)]
    tasks = [asyncio.create_task(read(*pair)) for pair in zip(handles, made.tokens, strict=True)]
    rule = SignalRule(every_tokens=HEARS_EVERY, min_high_share=2.0, min_repetitions=ENDLESS)
    signals = None if kind == "plain" else SignalRequest(False, (rule,))
    last = client.submit(request("the one beside", signals))
    handles.append(last)
    tasks.append(asyncio.create_task(hook(last, made.holds, injects=kind == "injected")))
    await asyncio.sleep(seconds)
    for handle in handles:
        handle.cancel()
    # One that is thinking is not waited for: it would look like a hold without streams.
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    while not client.statistics.is_idle:
        await asyncio.sleep(0.01)
    # Their prompts are no part of this.
    made.tokens = [instants[1:] for instants in made.tokens]
    return made


def summary(rounds: list[Round]) -> dict[str, Any]:
    """The median over the rounds of what each round says."""
    by_round = [one.gaps_ms() for one in rounds]
    all_gaps = [[gap for gap, _ in gaps] for gaps in by_round]
    held = [[gap for gap, is_within in gaps if is_within] for gaps in by_round]
    return {
        "num_holds": sum([len(one.holds) for one in rounds]),
        "median_ms": round(statistics.median(map(statistics.median, all_gaps)), 2),
        "p99_ms": round(statistics.median([statistics.quantiles(one, n=100)[-1] for one in all_gaps]), 2),
        "longest_ms": round(statistics.median(map(max, all_gaps)), 2),
        "median_within_holds_ms": round(statistics.median(map(statistics.median, held)), 2)
        if all(held)
        else None,
        "longest_within_holds_ms": round(statistics.median(map(max, held)), 2) if all(held) else None,
    }


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    config = EngineConfig(
        num_lanes=args.streams + 1, num_cells=8192, num_threads=args.threads, has_prefix_cache=False
    )
    model = LlamaModel.load(args.model, config)
    admission = FifoAdmission()
    thread = EngineThread(lambda: LlamaRunner(model, config), config, admission, SystemClock())
    client = EngineClient(thread, admission)
    await client.start()
    rounds: dict[str, list[Round]] = {kind: [] for kind in KINDS}
    for _ in range(args.rounds):
        for kind in KINDS:
            rounds[kind].append(await run_round(client, kind, args.streams, args.seconds))
    found = {kind: summary(rounds[kind]) for kind in KINDS}
    statistics_now = client.statistics
    found["injected"]["num_injected_tokens"] = statistics_now.total_injected_tokens
    await client.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = asyncio.run(measure(args))
    for kind, numbers in found.items():
        print(kind, numbers)
    if args.json:
        write_results(args.json, {"streams": args.streams, "seconds": args.seconds, "kinds": found})


if __name__ == "__main__":
    main()
