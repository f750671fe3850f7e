#!/usr/bin/env python3
"""What signals cost the engine thread: microseconds for each row of logits that asks for them, and for the
rules by which a hook hears of a token.

    .venv/bin/python benchmarks/signals.py [--vocabulary 49152] [--only-rules] [--json OUT]

For each number of rows, kind of logits and way to compute the exponentials: the median and the 90th
percentile of 200 measurements. And what another thread loses while this one does nothing else, of 1. For
rules the processor time of an answer of 2,000 tokens by its tokens, the median of 30 answers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from inference.domain.signals import SignalRequest, SignalRule, TokenSignal
from inference.engine.llama.signals import SignalMeter
from inference.engine.llama.softmax import bind_numpy, fastest_exponentials
from inference.engine.signals import SignalWatch

NUM_ROWS = (1, 4, 16)
ROUNDS = 200
# How far logits are spread: a real model has about 3, random weights hardly any, and -inf is rare.
KINDS = {"like a model's": 3.0, "nearly equal": 0.05}


def measure(meter: SignalMeter, logits: NDArray[np.float32]) -> tuple[float, float]:
    """Median and 90th percentile, microseconds a row."""
    rows = range(len(logits))
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        meter.measure(logits, rows)
        times.append(1e6 * (time.perf_counter() - begin) / len(logits))
    return statistics.median(times), statistics.quantiles(times, n=10)[-1]


def share_lost(meter: SignalMeter, logits: NDArray[np.float32]) -> float:
    """How much slower a thread that only counts gets on beside this, from 0 to 1."""
    count, is_over = 0, threading.Event()

    def count_up() -> None:
        nonlocal count
        while not is_over.is_set():
            count += 1

    thread = threading.Thread(target=count_up)
    thread.start()

    def counted_in(seconds: float, *, is_measuring: bool) -> float:
        begin, had = time.perf_counter(), count
        while time.perf_counter() - begin < seconds:
            if is_measuring:
                meter.measure(logits, range(len(logits)))
            else:
                time.sleep(0.01)
        return (count - had) / (time.perf_counter() - begin)

    alone = counted_in(1.0, is_measuring=False)
    beside = counted_in(1.0, is_measuring=True)
    is_over.set()
    thread.join()
    return max(0.0, 1 - beside / alone)


# Rules as policies have them, and such as share nothing, due at every token and nearly met.
RULES = {
    "none": (),
    "the default": (SignalRule(),),
    "20 alike": tuple([SignalRule() for _ in range(20)]),
    "20 different": tuple(
        [SignalRule(8 + index, high_entropy=2.0 + index / 10, min_between=40 + index) for index in range(20)]
    ),
    "20 different, always due, never met": tuple(
        [
            SignalRule(8 + index, 1, 1, index / 10, min_high_share=1.01, min_repetitions=2000)
            for index in range(20)
        ]
    ),
}
# How unsure a model is from token to token, in nats: mostly sure, or lost all the time.
ANSWERS = {"of a sure model": 0.6, "of a lost one": 5.0}
ANSWER_TOKENS, NUM_ANSWERS = 2000, 30


def cost_of_rules(rules: tuple[SignalRule, ...], mean_entropy: float) -> tuple[float, int]:
    """Microseconds a token, and how often something was told in one answer."""
    rng = np.random.default_rng(1)
    entropies = rng.exponential(mean_entropy, ANSWER_TOKENS).tolist()
    token_ids = rng.integers(0, 500, ANSWER_TOKENS).tolist()
    drawn = [(one, TokenSignal(entropy, 1.0)) for one, entropy in zip(token_ids, entropies, strict=True)]
    times, num_told = [], 0
    for _ in range(NUM_ANSWERS):
        watch = SignalWatch(SignalRequest(wants_first_token=False, rules=rules))
        begin = time.thread_time()
        told = [watch.observe(one, signal, 0.0, has_more=True) for one, signal in drawn]
        times.append(1e6 * (time.thread_time() - begin) / ANSWER_TOKENS)
        num_told = len([event for event in told if event is not None])
    return statistics.median(times), num_told


def measure_rows(num_vocabulary: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    results: list[dict[str, object]] = []
    for way, bind in (("ggml", fastest_exponentials()), ("numpy", bind_numpy)):
        if way == "ggml" and bind is bind_numpy:
            print("this build of llama.cpp does not export ggml's kernel")
            continue
        meter = SignalMeter(num_vocabulary, bind)
        for kind, spread in KINDS.items():
            for num_rows in NUM_ROWS:
                logits = (rng.standard_normal((num_rows, num_vocabulary)) * spread).astype(np.float32)
                median, high = measure(meter, logits)
                results.append(
                    {
                        "exponentials": way,
                        "logits": kind,
                        "rows": num_rows,
                        "us_per_row_median": round(median, 1),
                        "us_per_row_p90": round(high, 1),
                    }
                )
                print(results[-1])
    return results


def measure_rules() -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for name, asked in RULES.items():
        for answer, mean_entropy in ANSWERS.items():
            us_per_token, num_told = cost_of_rules(asked, mean_entropy)
            results.append(
                {"rules": name, "answer": answer, "us_per_token": round(us_per_token, 2), "told": num_told}
            )
            print(results[-1])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", type=int, default=49_152)
    parser.add_argument("--only-rules", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as the engine has it
    report: dict[str, object] = {"command": " ".join(["benchmarks/signals.py", *sys.argv[1:]])}
    if not args.only_rules:
        results = measure_rows(args.vocabulary)
        meter = SignalMeter(args.vocabulary)
        logits = (np.random.default_rng(0).standard_normal((16, args.vocabulary)) * 3).astype(np.float32)
        lost = round(share_lost(meter, logits), 2)
        print(f"another thread loses {100 * lost:.0f} % of its time")
        report |= {"vocabulary": args.vocabulary, "share_lost_by_others": lost, "results": results}
    report["rules"] = measure_rules()
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
