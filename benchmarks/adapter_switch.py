"""What LoRA adapters cost a step, and what it costs to change them between two steps.

    python -m benchmarks.adapter_switch MODEL [--lanes 1,8] [--pairs 60]

Two random adapters of rank 16 on four matrices of each layer. Steps go A A - - B B - - A A …: one under
another set than the step before, then one under the same. Milliseconds of CPU time with one thread, median
(best).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import llama_cpp

from inference.domain.adapters import AdapterSet, AppliedAdapter
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaRunner
from tests.model.tiny_adapter import write_adapter

WARM_UP = 4
CONFIG = EngineConfig(num_cells=4096, num_threads=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--lanes", default="1,8")
    parser.add_argument("--pairs", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = {
            name: write_adapter(given.model, Path(folder) / f"{name}.gguf", seed=seed, rank=16, strength=0.02)
            for seed, name in enumerate("ab")
        }
        model = LlamaModel.load(given.model, CONFIG)
        begin = time.perf_counter()
        model.load_adapters(files)
        print(f"two adapters tried and loaded in {time.perf_counter() - begin:.1f} s")
        runner = LlamaRunner(model, CONFIG)
        for num_lanes in map(int, given.lanes.split(",")):
            measure(runner, num_lanes, given.pairs)
        runner.close()


def measure(runner: LlamaRunner, num_lanes: int, num_pairs: int) -> None:
    context = runner._context
    context.clear()
    batch = llama_cpp.llama_batch_init(num_lanes, 0, 1)
    position = 0

    def step(adapters: AdapterSet) -> float:
        nonlocal position
        batch.n_tokens = num_lanes
        for row in range(num_lanes):
            batch.token[row], batch.pos[row] = 100 + row, position
            batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, row, 1
        position += 1
        begin = time.thread_time()
        context.set_adapters(adapters)
        status = llama_cpp.llama_decode(context._pointer, batch)
        assert status == 0, status
        return 1000 * (time.thread_time() - begin)

    times: dict[str, list[float]] = defaultdict(list)
    for pair in range(WARM_UP + num_pairs):
        adapters = (AppliedAdapter("ab"[pair % 2], 1.0),)
        found = {
            "to adapters": step(adapters),
            "with adapters": step(adapters),
            "to none": step(()),
            "with none": step(()),
        }
        if pair >= WARM_UP:
            for name, value in found.items():
                times[name].append(value)
    llama_cpp.llama_batch_free(batch)
    shown = ", ".join(f"{name} {statistics.median(one):.1f} ({min(one):.1f})" for name, one in times.items())
    print(f"{num_lanes} lanes: {shown}")


if __name__ == "__main__":
    main()
