#!/usr/bin/env python3
"""What a constraint costs: streams under a JSON schema beside plain ones, and the price of each question.

    .venv/bin/python benchmarks/constraints.py MODEL.gguf [--rounds 5] [--tokens 160] [--json OUT]

In one process, without HTTP: an engine generates so many streams at once, plain ones (going on to their
last token) and constrained ones in interleaved rounds; tokens a second of each, and their ratio. The
schema is a list of people, long enough for --tokens; sampling is the service's own. `forced` is the share
of tokens that were computed without being drawn.

Then, for answers of the same schema, the microseconds of each question to a constraint, and for schemas
and grammars of several sizes the milliseconds to compile them (trial in the other process included, warm),
and to find one again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from servers import write_results  # noqa: E402

from inference.domain.constraint import (  # noqa: E402
    AnyJson,
    Choice,
    ConstraintSpec,
    Grammar,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from inference.domain.events import TokenBatch  # noqa: E402
from inference.domain.requests import SamplingParams  # noqa: E402
from inference.engine.config import EngineConfig  # noqa: E402
from inference.engine.llama import LlamaConstraintCompiler, LlamaModel  # noqa: E402
from tests.model.stepped_engine import SteppedEngine  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "maxLength": 40},
        "family_name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "biography": {"type": "string", "maxLength": 200},
        "interests": {"type": "array", "items": {"type": "string", "maxLength": 30}, "maxItems": 4},
    },
    "required": ["first_name", "family_name", "age", "biography", "interests"],
    "additionalProperties": False,
}
PEOPLE = {"type": "array", "items": PERSON, "minItems": 50}
PROMPT = "<|im_start|>user\nWrite a list of people as JSON.<|im_end|>\n<|im_start|>assistant\n"
NUM_STREAMS = (1, 4, 8)
COMPILED: dict[str, Callable[[int], ConstraintSpec]] = {
    "json_object": lambda number: JsonSchema({"type": "object", "title": str(number)}),
    "one object": lambda number: JsonSchema({**PERSON, "title": str(number)}),
    "200 properties": lambda number: JsonSchema(
        {"properties": {f"p{number}_{one}": {"type": "string"} for one in range(200)}, "type": "object"}
    ),
    "enumeration of 10,000": lambda number: JsonSchema(
        {"enum": [f"{number} {one}" for one in range(10_000)]}
    ),
    "regular expression": lambda number: Regex(f"[a-z]{{1,{9 + number}}}@[a-z]+\\.(com|org)"),
    "choice of 100": lambda number: Choice(tuple(f"option {number} {one}" for one in range(100))),
    "grammar": lambda number: Grammar(f'start: "{number}" (WORD ",")* WORD\nWORD: /[a-z]+/'),
}


def run(
    model: LlamaModel, constraint: OutputConstraint | None, num_streams: int, tokens: int
) -> dict[str, float]:
    """Tokens a second of all streams together, and the share of forced ones."""
    with SteppedEngine(model, EngineConfig(num_lanes=num_streams)) as engine:
        engine.submit("warm", PROMPT, max_tokens=1)
        engine.run()
        sinks = [
            engine.submit(
                str(seed),
                PROMPT,
                max_tokens=tokens,
                ignore_eos=True,
                sampling=SamplingParams(seed=seed),
                constraint=constraint,
            )
            for seed in range(num_streams)
        ]
        begin = time.perf_counter()
        engine.run()
        seconds = time.perf_counter() - begin
        batches = [event for sink in sinks for event in sink.events if isinstance(event, TokenBatch)]
        num_tokens = sum(len(batch.token_ids) for batch in batches)
        return {"tokens_per_s": num_tokens / seconds, "forced": 1 - len(batches) / num_tokens}


def compare(model: LlamaModel, compiler: LlamaConstraintCompiler, args: argparse.Namespace) -> list[Any]:
    constraint = compiler.compile(JsonSchema(PEOPLE))
    found = []
    for num_streams in NUM_STREAMS:
        plain, constrained, forced = [], [], 0.0
        for _ in range(args.rounds):
            plain.append(run(model, None, num_streams, args.tokens)["tokens_per_s"])
            one = run(model, constraint, num_streams, args.tokens)
            constrained.append(one["tokens_per_s"])
            forced = one["forced"]
        ratios = [ours / theirs for ours, theirs in zip(constrained, plain, strict=True)]
        found.append(
            {
                "streams": num_streams,
                "plain_tokens_per_s": round(statistics.median(plain), 1),
                "constrained_tokens_per_s": round(statistics.median(constrained), 1),
                "ratio_median": round(statistics.median(ratios), 3),
                "ratio_min": round(min(ratios), 3),
                "ratio_max": round(max(ratios), 3),
                "forced": round(forced, 3),
            }
        )
        print(found[-1])
    return found


def price(model: LlamaModel, constraint: OutputConstraint, token_ids: tuple[int, ...]) -> list[Any]:
    """Microseconds of each question along one answer, over and over."""
    times: dict[str, list[float]] = {}

    def clock(name: str, call: Callable[..., Any], *args: Any) -> Any:
        begin = time.perf_counter()
        result = call(*args)
        times.setdefault(name, []).append(1e6 * (time.perf_counter() - begin))
        return result

    for _ in range(20):
        state = clock("begin", constraint.begin)
        for token_id in token_ids:
            clock("mask", state.mask)
            clock("forced_tokens", state.forced_tokens, 32)
            clock("accepts", state.accepts, token_id)
            clock("advance", state.advance, token_id)
    found = []
    for name, values in times.items():
        quantiles = statistics.quantiles(values, n=100)
        found.append(
            {
                "call": name,
                "us_median": round(statistics.median(values), 1),
                "us_p99": round(quantiles[-1], 1),
            }
        )
        print(found[-1])
    return found


def compilation(compiler: LlamaConstraintCompiler) -> list[Any]:
    found = []
    for name, make in COMPILED.items():
        new, again = [], []
        for number in range(10):
            for times in (new, again):
                begin = time.perf_counter()
                compiler.compile(make(number))
                times.append(1e3 * (time.perf_counter() - begin))
        found.append(
            {
                "constraint": name,
                "ms_median": round(statistics.median(new), 2),
                "ms_max": round(max(new), 2),
                "ms_again": round(statistics.median(again), 3),
            }
        )
        print(found[-1])
    return found


def answer_of(model: LlamaModel, constraint: OutputConstraint, tokens: int) -> tuple[int, ...]:
    with SteppedEngine(model, EngineConfig(num_lanes=1)) as engine:
        sink = engine.submit("answer", PROMPT, max_tokens=tokens, constraint=constraint)
        engine.run()
        return tuple(sink.token_ids)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    model = LlamaModel.load(args.model, replace(EngineConfig(), num_lanes=max(NUM_STREAMS)))
    begin = time.perf_counter()
    compiler = LlamaConstraintCompiler(model.tokenizer)
    vocabulary_s = time.perf_counter() - begin
    print(f"{vocabulary_s:.2f} s for a vocabulary of {model.tokenizer.num_tokens} tokens")
    compiler.compile(AnyJson())
    constraint = compiler.compile(JsonSchema(PEOPLE))
    found = {
        "vocabulary_tokens": model.tokenizer.num_tokens,
        "vocabulary_s": round(vocabulary_s, 2),
        "compilation": compilation(compiler),
        "questions": price(model, constraint, answer_of(model, constraint, args.tokens)),
        "streams": compare(model, compiler, args),
    }
    compiler.close()
    model.close()
    if args.json:
        write_results(args.json, found)


if __name__ == "__main__":
    main()
