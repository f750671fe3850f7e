#!/usr/bin/env python3
"""Does a prefix come back from host memory sooner than it is computed, and from which length on?

    .venv/bin/python benchmarks/host_tier.py MODEL.gguf [--rounds 3] [--threads 2] [--json OUT]

For each length, in turn within a round: a prompt that nobody has asked with before is computed up to its
first token; its cells are given up, so that its state goes to the host tier; and it is asked with again,
with one other token at its end. Times are from the request to its first token, in the engine as it serves,
without HTTP. The ratio is the second ÷ the first of the same round: below 1 it pays, and of 3,000
tokens it is to be below a third.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from servers import write_results  # noqa: E402

from inference.engine.config import EngineConfig  # noqa: E402
from inference.engine.llama import LlamaModel  # noqa: E402
from tests.model.stepped_engine import SteppedEngine  # noqa: E402

LENGTHS = (65, 129, 257, 513, 1025, 3000)


class Round:
    """One engine, whose cells are emptied between what is compared."""

    def __init__(self, engine: SteppedEngine, random: np.random.Generator) -> None:
        self._engine = engine
        self._random = random
        self._count = 0

    def compare(self, num_tokens: int) -> dict[str, float]:
        """Seconds to the first token, computed and restored, and of copying."""
        prompt = tuple(self._random.integers(100, self._engine.runner.num_vocabulary, num_tokens).tolist())
        computed_s = self._first_token_s(prompt)
        before = self._engine.core.statistics(is_alive=True).cold
        self._cool_down()
        restored_s = self._first_token_s((*prompt[:-1], 99))
        after = self._engine.core.statistics(is_alive=True).cold
        self._cool_down()
        return {
            "computed_s": computed_s,
            "restored_s": restored_s,
            "ratio": restored_s / computed_s,
            "restored_tokens": after.total_restored_tokens - before.total_restored_tokens,
            "copy_s": after.total_restore_s - before.total_restore_s,
            "saved_s_per_token": after.total_save_s / max(after.total_saved_tokens, 1),
        }

    def _first_token_s(self, prompt: tuple[int, ...]) -> float:
        self._count += 1
        begin_s = time.perf_counter()
        sink = self._engine.submit(f"r{self._count}", prompt, max_tokens=1, ignore_eos=True)
        while not sink.token_ids:
            self._engine.core.step()
        return time.perf_counter() - begin_s

    def _cool_down(self) -> None:
        self._engine.run()
        while self._engine.core._memory.evict_one():
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    config = EngineConfig(num_threads=given.threads, host_cache_bytes=1 << 30, min_cached_tokens=32)
    model = LlamaModel.load(given.model, config)
    found: dict[int, list[dict[str, float]]] = {length: [] for length in LENGTHS}
    with SteppedEngine(model, config) as engine:
        one = Round(engine, np.random.default_rng(1))
        one.compare(LENGTHS[0])  # nothing is measured of the first one of all
        for _ in range(given.rounds):
            for length in LENGTHS:
                found[length].append(one.compare(length))
    model.close()
    print("tokens  computed ms  restored ms  of it copying ms  ratio (best - worst)")
    for length, rows in found.items():
        middle = {name: statistics.median([row[name] for row in rows]) for name in rows[0]}
        ratios = sorted(row["ratio"] for row in rows)
        print(
            f"{length:6} {1000 * middle['computed_s']:12.1f} {1000 * middle['restored_s']:12.1f} "
            f"{1000 * middle['copy_s']:17.2f}  {middle['ratio']:.3f} ({ratios[0]:.3f} - {ratios[-1]:.3f})"
        )
    if given.json:
        write_results(given.json, {"lengths": {str(length): rows for length, rows in found.items()}})


if __name__ == "__main__":
    main()
