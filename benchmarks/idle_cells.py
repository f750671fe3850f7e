#!/usr/bin/env python3
"""What cells that nobody uses cost the steps of those who run: how many should the prefix cache keep?

    .venv/bin/python benchmarks/idle_cells.py MODEL.gguf [--rounds 5] [--threads 2] [--json OUT]

All sequences share one pool of cells, and a step reads it up to the last used one, whoever uses it. With
none, a quarter, half and three quarters of 16,384 cells kept idle, the script times with llama.cpp alone
steps of one and of eight sequences of 256 tokens each, in turn and on the same context. The idle cells lie
before those of the running sequences, as they do where they are left by earlier ones.

From the slope follows when a kept cell pays: it costs every step a little, and a hit saves the prefill of
its token, so it is worth keeping if it is hit again within `break_even_steps`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from servers import write_results  # noqa: E402

from inference.engine.llama import library  # noqa: E402

# isort: split
# After `library`, which sets what llama.cpp reads when it is loaded.
import llama_cpp  # noqa: E402

NUM_CELLS = 16_384
IDLE_SHARES = (0.0, 0.25, 0.5, 0.75)
NUM_BLOCK_TOKENS = 512  # idle cells are restored in blocks of so many
NUM_LANE_TOKENS = 256
LANES = (1, 8)
NUM_STEPS = 12


class Context:
    """A context with one unified pool, whose cells can be filled without computing them."""

    def __init__(self, path: Path, threads: int) -> None:
        library.start_backend()
        self._model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = NUM_CELLS, NUM_BLOCK_TOKENS, NUM_BLOCK_TOKENS
        params.n_seq_max = params.n_outputs_max = NUM_CELLS // NUM_BLOCK_TOKENS + max(LANES)
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = threads
        self._pointer = llama_cpp.llama_init_from_model(self._model, params)
        if not self._pointer:
            raise SystemExit(f"{path} cannot be loaded")
        self._batch = llama_cpp.llama_batch_init(NUM_BLOCK_TOKENS, 0, 1)
        self.prefill_s = self._prefill(NUM_BLOCK_TOKENS)
        self._block = self._saved()
        self._prefill(NUM_LANE_TOKENS)
        self._lane = self._saved()

    def _prefill(self, count: int) -> float:
        self.clear()
        rows = [(100 + index * 7 % 4000, index, 0) for index in range(count)]
        return self.decode(rows)

    def _saved(self) -> Any:
        size = llama_cpp.llama_state_seq_get_size(self._pointer, 0)
        held = (llama_cpp.ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self._pointer, held, size, 0) != size:
            raise SystemExit("the cells cannot be saved")
        return held

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._pointer), False)

    def fill(self, num_idle: int, num_lanes: int) -> None:
        """Idle cells first, then the lanes, which are the sequences 0, 1, …"""
        self.clear()
        for number in range(num_idle // NUM_BLOCK_TOKENS):
            self._restore(self._block, max(LANES) + number)
        for lane in range(num_lanes):
            self._restore(self._lane, lane)

    def _restore(self, held: Any, sequence_id: int) -> None:
        if llama_cpp.llama_state_seq_set_data(self._pointer, held, len(held), sequence_id) == 0:
            raise SystemExit("the cells cannot be restored")

    def decode(self, rows: list[tuple[int, int, int]]) -> float:
        """Rows of (token, position, sequence); seconds."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for index, (token, position, sequence) in enumerate(rows):
            batch.token[index], batch.pos[index] = token, position
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
            batch.logits[index] = len(rows) <= max(LANES)
        begin_ts = time.perf_counter()
        if llama_cpp.llama_decode(self._pointer, batch) != 0:
            raise SystemExit("a batch failed")
        llama_cpp.llama_synchronize(self._pointer)
        return time.perf_counter() - begin_ts

    def steps(self, num_lanes: int) -> list[float]:
        """Milliseconds of each step but the first, which builds the graph."""
        durations = [
            self.decode([(500 + step, NUM_LANE_TOKENS + step, lane) for lane in range(num_lanes)])
            for step in range(NUM_STEPS)
        ]
        return [1e3 * one for one in durations[1:]]


def measure(context: Context, rounds: int) -> dict[int, dict[int, float]]:
    """Median milliseconds of a step, by lanes and idle cells."""
    found: dict[int, dict[int, list[float]]] = {lanes: {} for lanes in LANES}
    for _ in range(rounds):
        for lanes in LANES:
            for share in IDLE_SHARES:
                num_idle = int(share * NUM_CELLS)
                context.fill(num_idle, lanes)
                found[lanes].setdefault(num_idle, []).extend(context.steps(lanes))
    return {
        lanes: {num_idle: statistics.median(steps) for num_idle, steps in row.items()}
        for lanes, row in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    context = Context(args.model, args.threads)
    medians = measure(context, args.rounds)
    token_ms = 1e3 * context.prefill_s / NUM_BLOCK_TOKENS
    result: dict[str, Any] = {"prefill_ms_per_token": round(token_ms, 3)}
    for lanes, row in medians.items():
        slope = float(np.polyfit(list(row), list(row.values()), 1)[0])
        result[f"{lanes} lanes"] = {
            "step_ms": {num_idle: round(ms, 2) for num_idle, ms in row.items()},
            "us_per_1000_idle_cells": round(1e6 * slope, 1),
            "break_even_steps": round(token_ms / slope) if slope > 0 else None,
        }
    print(json.dumps(result, indent=1))
    if args.json:
        write_results(args.json, {"rounds": args.rounds, **result})
    return 0


if __name__ == "__main__":
    sys.exit(main())
