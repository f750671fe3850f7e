#!/usr/bin/env python3
"""What drafts give and cost: tokens a second with them ÷ without, at one client, in turns in one process.

    .venv/bin/python benchmarks/speculation.py MODEL.gguf [--draft SMALL.gguf] [--rounds 5] [--tokens 256] \
        [--max-draft-tokens 8] [--json OUT]

The tasks: `copy` is a text that the prompt repeats and the answer goes on to repeat, `edit` asks for a text
of the prompt with a word changed, `free` is a story, in which little repeats, greedily and at default
sampling with a seed. In each round every task is answered plainly and with drafts, one after the other, the
one or the other first in turns, so that both see the same machine. The engine is stepped here, without a
server: what is timed is from the first token to the last.

Texts are compared token by token. Rows that are computed together are added up in another order than one
alone, so with 8-bit weights a near-tie may go the other way: for each answer that differs, the lead that the
plain answer's token had over the other one (in logits) is shown, as the plain run measured it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

from servers import write_results  # noqa: E402

from inference.domain.events import TokenBatch  # noqa: E402
from inference.domain.requests import SamplingParams  # noqa: E402
from inference.domain.speculation import SpeculationMode, SpeculationRequest  # noqa: E402
from inference.engine.config import EngineConfig  # noqa: E402
from inference.engine.llama import LlamaModel, LlamaRunner  # noqa: E402
from inference.engine.llama.draft_model import load_draft  # noqa: E402
from tests.model.stepped_engine import GREEDY, SteppedEngine, chat  # noqa: E402
from tests.unit.engine.scripted_engine_parts import RecordingSink  # noqa: E402

PASSAGE = (
    "The harbour master kept a small brass bell beside the window. Every morning she rang it twice when "
    "the first boat left, and once more when the last one came home. Children on the quay counted the "
    "strokes and told each other stories about what the third one meant. Nobody ever asked her, because "
    "everybody liked the stories better than any answer. In the winter the bell grew cold and sounded "
    "thinner, but it was rung all the same, and the boats came home to it through fog and snow."
)
EDIT = f"Repeat this text word by word, but write 'lighthouse' for 'harbour':\n\n{PASSAGE}"
STORY = chat("Write a story about a dragon who learns to bake bread.")
SAMPLED = SamplingParams(seed=11)
TASKS = {
    "copy": (f"{PASSAGE}\n\n{PASSAGE}\n\n{PASSAGE[:60]}", GREEDY),
    "edit": (chat(EDIT), GREEDY),
    "free": (STORY, GREEDY),
    "free, sampled": (STORY, SAMPLED),
}


@dataclass
class Task:
    """What came of one task, round by round."""

    ratios: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    drafted: list[float] = field(default_factory=list)
    num_drafted: int = 0
    num_accepted: int = 0
    num_compared: int = 0
    num_different: int = 0
    lost_leads: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        return {
            "ratio": [round(pick(self.ratios), 3) for pick in (statistics.median, min, max)],
            "plain tokens a second": round(statistics.median(self.plain), 1),
            "drafted tokens a second": round(statistics.median(self.drafted), 1),
            "accepted of drafted": f"{self.num_accepted} of {self.num_drafted}",
            "other texts": f"{self.num_different} of {self.num_compared}",
            "leads lost": [round(lead, 3) for lead in self.lost_leads],
        }


@dataclass(frozen=True)
class Answer:
    token_ids: list[int]
    tokens_per_s: float
    sink: RecordingSink

    @property
    def batches(self) -> list[TokenBatch]:
        return [event for event in self.sink.events if isinstance(event, TokenBatch)]


def answer(
    engine: SteppedEngine, name: str, args: argparse.Namespace, drafts: SpeculationRequest | None
) -> Answer:
    text, sampling = TASKS[name]
    sink = engine.submit(
        name, text, max_tokens=args.tokens, sampling=sampling, ignore_eos=True, speculation=drafts
    )
    while not sink.token_ids:
        engine.core.step()
    began_s, num_first = time.perf_counter(), len(sink.token_ids)
    engine.run()
    took_s = time.perf_counter() - began_s
    return Answer(sink.token_ids, (len(sink.token_ids) - num_first) / took_s, sink)


def compare(engine: SteppedEngine, name: str, task: Task, plain: Answer, drafted: Answer) -> None:
    """Where the texts part, how much likelier the plain one's token was, in a run that asks for it."""
    task.num_compared += 1
    if plain.token_ids == drafted.token_ids:
        return
    task.num_different += 1
    pairs = zip(plain.token_ids, drafted.token_ids, strict=True)
    place = next(index for index, (one, other) in enumerate(pairs) if one != other)
    text, sampling = TASKS[name]
    sink = engine.submit(
        name, text, max_tokens=place + 1, sampling=sampling, ignore_eos=True, num_top_logprobs=20
    )
    engine.run()
    scored = [one for event in sink.events if isinstance(event, TokenBatch) for one in event.logprobs][place]
    likely = dict(scored.top)
    lead = likely.get(plain.token_ids[place], -99.0) - likely.get(drafted.token_ids[place], -99.0)
    task.lost_leads.append(lead)


def run(engine: SteppedEngine, args: argparse.Namespace, mode: SpeculationMode) -> dict[str, Any]:
    drafts = SpeculationRequest(mode, args.max_draft_tokens)
    tasks = {name: Task() for name in TASKS}
    for number in range(args.rounds + 1):
        for name, task in tasks.items():
            order = (None, drafts) if number % 2 else (drafts, None)
            answers = {one is not None: answer(engine, name, args, one) for one in order}
            plain, drafted = answers[False], answers[True]
            if not number:
                continue  # warms up
            task.ratios.append(drafted.tokens_per_s / plain.tokens_per_s)
            task.plain.append(plain.tokens_per_s)
            task.drafted.append(drafted.tokens_per_s)
            task.num_drafted += sum(batch.num_drafted for batch in drafted.batches)
            task.num_accepted += sum(batch.num_accepted for batch in drafted.batches)
            compare(engine, name, task, plain, drafted)
    return {name: task.summary() for name, task in tasks.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--max-draft-tokens", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    config = EngineConfig(num_lanes=4, num_cells=8192, num_threads=args.threads)
    model = LlamaModel.load(args.model, config)
    draft = None if args.draft is None else load_draft(args.draft, model, config)
    results = {}
    with SteppedEngine(
        model, config, runner=LlamaRunner(model, config, owns_model=False, draft=draft)
    ) as engine:
        results["prompt_lookup"] = run(engine, args, SpeculationMode.PROMPT_LOOKUP)
        if draft is not None:
            results["draft_model"] = run(engine, args, SpeculationMode.DRAFT_MODEL)
    for mode, tasks in results.items():
        for name, found in tasks.items():
            print(mode, name, found, flush=True)
    if args.json:
        write_results(args.json, {"model": args.model.name, "speculation": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
