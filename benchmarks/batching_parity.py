#!/usr/bin/env python3
"""Does company change an answer? Logits of a sequence in all kinds of batches beside those that it has alone.

    .venv/bin/python benchmarks/batching_parity.py MODEL.gguf [--threads 2] [--json OUT]

The engine itself (scheduler, prefix cache, llama.cpp) answers the same prompts, greedily, six times:

    alone       one after the other, each prompt in one batch, no prefix cache: what is compared with
    again       the same once more: what one and the same batch differs from itself
    chunked     one after the other, prompts in chunks of 32 tokens
    copied      one after the other, beginning with cells that an earlier prompt has left
    mixed       all at once beside long prompts that arrive meanwhile: decodes and chunks in each batch
    preempted   as mixed, with a pool so small that sequences lose their cells and are computed again

Sums in another order are rounded otherwise, so logits differ by noise. Shown for each kind, over all
tokens up to the first one that differs: largest and mean difference of a logit, the divergence
(Kullback-Leibler, nats) of the predictions, and how many texts took another way, with the largest lead
that a token had where another one was taken: that must be within the noise.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from servers import write_results  # noqa: E402

from inference.engine.config import EngineConfig  # noqa: E402
from inference.engine.llama import LlamaModel  # noqa: E402
from tests.model.watched_engine import Row, WatchedEngine  # noqa: E402

MAX_TOKENS = 40
NUM_LONG_TOKENS = 500
ROOMY_CELLS, TIGHT_CELLS = 4096, 1024
UNPACED_S = 1e6
RULES = (
    "You answer travellers at the desk of a small railway station. Be short and friendly. Trains to the "
    "coast leave every hour, trains to the mountains at six in the morning and at noon. Dogs travel free, "
    "bicycles need a ticket. The waiting room closes at ten in the evening, and the kiosk sells coffee "
    "and maps."
)
QUESTIONS = (
    "When does the next train to the coast leave?",
    "May I bring my dog?",
    "Where can I buy a map?",
    "I missed the train at noon. What now?",
    "What does a bicycle need?",
    "Is the waiting room open at night?",
    "Tell me about the mountains.",
    "Count the trains of a day.",
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Tokens, and the logits behind each of them, by question."""

    token_ids: dict[str, list[int]]
    logits: dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Parity:
    """How far answers are from those alone; see the module. Logits of this model spread over `logit_std`."""

    num_tokens: int
    max_difference: float
    mean_difference: float
    max_divergence_nats: float
    mean_divergence_nats: float
    num_texts: int
    num_other_texts: int
    largest_lead_lost: float
    logit_std: float


def chat(question: str) -> str:
    return (
        f"<|im_start|>system\n{RULES}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def one_by_one(engine: WatchedEngine) -> dict[str, Any]:
    sinks = {}
    for question in QUESTIONS:
        sinks[question] = engine.submit(question, chat(question), max_tokens=MAX_TOKENS)
        engine.run()
    return sinks


def after_another(engine: WatchedEngine) -> dict[str, Any]:
    engine.submit("earlier", chat("Good morning!"), max_tokens=1)
    engine.run()
    sinks = one_by_one(engine)
    if engine.core.statistics(is_alive=True).cache.total_hits < len(QUESTIONS):
        raise SystemExit("the prefix cache was not hit")
    return sinks


def all_at_once(engine: WatchedEngine) -> dict[str, Any]:
    sinks = {}
    for number, question in enumerate(QUESTIONS):
        sinks[question] = engine.submit(question, chat(question), max_tokens=MAX_TOKENS)
        if number % 2:
            # A long prompt comes while the earlier ones are decoding.
            engine.core.step()
            engine.core.step()
            tokens = tuple(1000 + (number * 31 + index * 7) % 9000 for index in range(NUM_LONG_TOKENS))
            engine.submit(f"long {number}", tokens, max_tokens=2)
    engine.run()
    return sinks


def answers(model: LlamaModel, config: EngineConfig, drive: Callable[[WatchedEngine], Any]) -> Answers:
    with WatchedEngine(model, config) as engine:
        sinks = drive(engine)
        engine.check_all_free()
        statistics = engine.core.statistics(is_alive=True)
        is_tight = config.num_cells == TIGHT_CELLS
        if statistics.total_failed_sequences or is_tight != bool(statistics.total_preemptions):
            raise SystemExit(f"not what was to be measured: {statistics}")
        logits = {question: engine.logits[question] for question in QUESTIONS}
        return Answers({question: sinks[question].token_ids for question in QUESTIONS}, logits)


def compare(alone: Answers, other: Answers) -> Parity:
    largest: list[float] = []
    means: list[float] = []
    divergences: list[float] = []
    leads: list[float] = []
    spreads: list[float] = []
    for question, expected in alone.token_ids.items():
        found = other.token_ids[question]
        pairs = zip(alone.logits[question], other.logits[question], strict=False)
        for index, (mine, theirs) in enumerate(pairs):
            difference = np.abs(mine - theirs)
            largest.append(float(difference.max()))
            means.append(float(difference.mean()))
            divergences.append(divergence(mine, theirs))
            spreads.append(float(mine.std()))
            if (one := expected[index : index + 1]) != (another := found[index : index + 1]):
                if one and another:
                    leads.append(float(mine[one[0]] - mine[another[0]]))
                else:
                    # One of them ended here: the end leads over whatever the other one said.
                    leads.append(float(mine.max() - mine[(one or another)[0]]))
                break
    return Parity(
        num_tokens=len(largest),
        max_difference=max(largest),
        mean_difference=float(np.mean(means)),
        max_divergence_nats=max(divergences),
        mean_divergence_nats=float(np.mean(divergences)),
        num_texts=len(alone.token_ids),
        num_other_texts=len(leads),
        largest_lead_lost=max(leads, default=0.0),
        logit_std=float(np.mean(spreads)),
    )


def divergence(one: Row, other: Row) -> float:
    """Of `other` from `one`, in nats."""

    def log_softmax(row: Row) -> Any:
        wide = row.astype(np.float64) - row.max()
        return wide - np.log(np.exp(wide).sum())

    mine, theirs = log_softmax(one), log_softmax(other)
    return float((np.exp(mine) * (mine - theirs)).sum())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    # No pacing: the same prompts are cut in the same places in every run, however fast it goes.
    roomy = EngineConfig(
        num_lanes=12, num_cells=ROOMY_CELLS, num_threads=args.threads, target_step_s=UNPACED_S
    )
    plain = replace(roomy, has_prefix_cache=False)
    chunked = replace(plain, max_batch_tokens=32, max_prefill_tokens_beside_decodes=32)
    tight = replace(plain, num_cells=TIGHT_CELLS)
    kinds: dict[str, tuple[EngineConfig, Callable[[WatchedEngine], Any]]] = {
        "again": (plain, one_by_one),
        "chunked": (chunked, one_by_one),
        "copied": (roomy, after_another),
        "mixed": (plain, all_at_once),
        "preempted": (tight, all_at_once),
    }
    model = LlamaModel.load(args.model, plain)
    alone = answers(model, plain, one_by_one)
    results = {}
    for kind, (config, drive) in kinds.items():
        results[kind] = found = compare(alone, answers(model, config, drive))
        print(f"{kind:10} {found}", flush=True)
    if args.json:
        table = {
            kind: {name: float(f"{value:.4g}") for name, value in asdict(found).items()}
            for kind, found in results.items()
        }
        write_results(args.json, {"beside alone": table})
    return 0


if __name__ == "__main__":
    sys.exit(main())
