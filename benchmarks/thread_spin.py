#!/usr/bin/env python3
"""How long OpenMP's threads should spin at a barrier: a quiet machine beside one with a busy neighbour.

    .venv/bin/python benchmarks/thread_spin.py MODEL.gguf [--rounds 3] [--threads 2] [--json OUT]

For each GOMP_SPINCOUNT, in a process of its own: a prefill of 128 tokens, then 30 decodes of one sequence
and 20 of eight. The same again while another process keeps one core busy, and beside a second engine
with as many threads. Medians in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COUNTS = ("default", "0", "1000", "5000", "20000")
NUM_PROMPT, NUM_LANES = 128, 8


def measure(model: str, threads: int, *, is_endless: bool) -> dict[str, float]:
    """Runs in the child: medians in milliseconds; or only keeps the cores busy until it is killed."""
    import llama_cpp as llama

    quiet = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(quiet, None)
    loaded = llama.llama_model_load_from_file(model.encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 4096, 512, 512
    params.n_seq_max = params.n_outputs_max = NUM_LANES
    params.kv_unified = True
    params.n_threads = params.n_threads_batch = threads
    context = llama.llama_init_from_model(loaded, params)
    memory = llama.llama_get_memory(context)
    batch = llama.llama_batch_init(512, 0, 1)

    def decode(tokens: list[int], positions: list[int], lanes: list[int], *, wants_logits: bool) -> float:
        for row, (token, position, lane) in enumerate(zip(tokens, positions, lanes, strict=True)):
            batch.token[row], batch.pos[row], batch.n_seq_id[row] = token, position, 1
            batch.seq_id[row][0], batch.logits[row] = lane, wants_logits
        batch.n_tokens = len(tokens)
        begin = time.perf_counter()
        if llama.llama_decode(context, batch) != 0:
            raise SystemExit("a decode failed")
        return 1e3 * (time.perf_counter() - begin)

    def prefill() -> float:
        llama.llama_memory_clear(memory, True)
        prompt = list(range(100, 100 + NUM_PROMPT))
        return decode(prompt, list(range(NUM_PROMPT)), [0] * NUM_PROMPT, wants_logits=False)

    prefill()
    while is_endless:
        prefill()
        for n in range(30):
            decode([500 + n], [NUM_PROMPT + n], [0], wants_logits=True)
    prefills = [prefill() for _ in range(3)]
    alone = [decode([500 + n], [NUM_PROMPT + n], [0], wants_logits=True) for n in range(30)]
    for lane in range(1, NUM_LANES):
        llama.llama_memory_seq_cp(memory, 0, lane, -1, -1)
    lanes = list(range(NUM_LANES))
    begin = NUM_PROMPT + 30
    together = [
        decode([500 + n] * NUM_LANES, [begin + n] * NUM_LANES, lanes, wants_logits=True) for n in range(20)
    ]
    return {
        "prefill_128_ms": statistics.median(prefills),
        "decode_1_ms": statistics.median(alone),
        "decode_8_ms": statistics.median(together),
    }


def command(model: Path, threads: int, count: str, *more: str) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, **({} if count == "default" else {"GOMP_SPINCOUNT": count})}
    return [sys.executable, __file__, str(model), "--threads", str(threads), "--child", *more], environment


def in_child(model: Path, threads: int, count: str, neighbour: str) -> dict[str, float]:
    beside: subprocess.Popen[bytes] | None = None
    if neighbour == "busy neighbour":
        beside = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    elif neighbour == "second engine":
        arguments, environment = command(model, threads, count, "--endless")
        beside = subprocess.Popen(arguments, env=environment)
        time.sleep(2.0)  # it loads
    try:
        arguments, environment = command(model, threads, count)
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    finally:
        if beside is not None:
            beside.kill()
            beside.wait()
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--endless", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(str(args.model), args.threads, is_endless=args.endless)))
        return 0
    results: dict[str, Any] = {}
    for name in ("quiet", "busy neighbour", "second engine"):
        rows: dict[str, list[dict[str, float]]] = {count: [] for count in COUNTS}
        for _ in range(args.rounds):
            for count in COUNTS:
                rows[count].append(in_child(args.model, args.threads, count, name))
        results[name] = {
            count: {key: round(statistics.median(r[key] for r in found), 1) for key in found[0]}
            for count, found in rows.items()
        }
        for count, row in results[name].items():
            print(f"{name:15} GOMP_SPINCOUNT {count:8} {row}", flush=True)
    if args.json:
        told = {"command": "benchmarks/thread_spin.py", "rounds": args.rounds, "threads": args.threads}
        args.json.write_text(json.dumps({**told, "milliseconds": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
