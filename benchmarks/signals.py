#!/usr/bin/env python3
"""What signals cost the engine thread: microseconds for each row of logits that asks for them.

    .venv/bin/python benchmarks/signals.py [--vocabulary 49152] [--json OUT]

For each number of rows, kind of logits and way to compute the exponentials: the median and the 90th
percentile of 200 measurements. And what another thread loses while this one does nothing else, of 1.
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

from inference.engine.llama.signals import SignalMeter
from inference.engine.llama.softmax import bind_numpy, fastest_exponentials

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", type=int, default=49_152)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as the engine has it
    rng = np.random.default_rng(0)
    results = []
    for way, bind in (("ggml", fastest_exponentials()), ("numpy", bind_numpy)):
        if way == "ggml" and bind is bind_numpy:
            print("this build of llama.cpp does not export ggml's kernel")
            continue
        meter = SignalMeter(args.vocabulary, bind)
        for kind, spread in KINDS.items():
            for num_rows in NUM_ROWS:
                logits = (rng.standard_normal((num_rows, args.vocabulary)) * spread).astype(np.float32)
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
    meter = SignalMeter(args.vocabulary)
    logits = (rng.standard_normal((16, args.vocabulary)) * 3).astype(np.float32)
    held = round(share_lost(meter, logits), 2)
    print(f"another thread loses {100 * held:.0f} % of its time")
    if args.json:
        command = " ".join(["benchmarks/signals.py", *sys.argv[1:]])
        report = {
            "command": command,
            "vocabulary": args.vocabulary,
            "share_lost_by_others": held,
            "results": results,
        }
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
