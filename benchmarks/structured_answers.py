#!/usr/bin/env python3
"""Does an answer that has to have a form have it, whatever the model would say?

    .venv/bin/python benchmarks/structured_answers.py MODEL.gguf [--runs 200] [--clients 4] [--pairs 6] \
        [--max-tokens 300] [--ways json_schema required named] [--server uvicorn] [--json OUT]

Our server, as an operator starts it, is asked by the official client in three ways, half of them streamed:

    json_schema  a strict schema, as pydantic emits it: nested, Optional, Literal, Enum, lists, recursive
    required     tool_choice "required" among tools that have these schemas; every second run may call several
    named        tool_choice names one of these tools

Each is asked until --runs answers have ended by themselves. Those are read by pydantic and compared with
the JSON schema, and each wrong one is told; those that max_tokens cut have to say `length`, and are counted
apart. A stream's answer is what its deltas add up to. After that, --pairs questions of each way are asked
one at a time, whole and streamed with one seed, and compared word by word.

A model with random weights shows what the constraint does, as it knows nothing of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import openai
from pydantic import BaseModel, ConfigDict, Field, ValidationError

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from servers import Server, Sizes, start_ours, write_results  # noqa: E402

Short = Annotated[str, Field(max_length=8)]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Colour(Enum):
    RED = "red"
    DEEP_BLUE = "deep blue"
    GREEN = "grün"


class Address(Closed):
    street: Short
    number: Annotated[int, Field(ge=1, le=999)]
    code: Annotated[str, Field(pattern=r"^[0-9]{5}$")]


class Nested(Closed):
    """Objects in objects, one of them twice."""

    name: Short
    home: Address
    work: Address | None


class Optionals(Closed):
    """What may be null, and what may be missing."""

    title: Short | None
    note: Short | None = None
    ratio: float | None = None
    count: Annotated[int, Field(ge=0, le=100)] = 1


class Choices(Closed):
    """Literals of several types, and enumerations."""

    unit: Literal["celsius", "fahrenheit"]
    level: Literal[1, 2, 3]
    colour: Colour
    second: Colour | None
    is_sure: bool


class Lists(Closed):
    tags: Annotated[list[Short], Field(max_length=3)]
    colours: Annotated[list[Colour], Field(min_length=1, max_length=3)]
    places: Annotated[list[Address], Field(max_length=2)]
    point: tuple[Annotated[int, Field(ge=0, le=9)], Annotated[int, Field(ge=0, le=9)]]


class Tree(Closed):
    """Itself, so deep as the model wants."""

    label: Short
    left: Tree | None
    right: Tree | None


class Cat(Closed):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(Closed):
    kind: Literal["dog"]
    name: Short


class Union(Closed):
    """One of several objects, told apart by a field or not."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    owner: Short | Annotated[int, Field(ge=0, le=99)]


FORMS: dict[str, type[BaseModel]] = {
    one.__name__.lower(): one for one in (Nested, Optionals, Choices, Lists, Tree, Union)
}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "strict": True, "parameters": form.model_json_schema()}}
    for name, form in FORMS.items()
]
WAYS = ("json_schema", "required", "named")
PARALLEL = 2  # Every such run.


class NotAsAskedError(Exception):
    """An answer, or a stream of one, that is not what was asked for."""


@dataclass
class Answer:
    """What one request said, whole or added up."""

    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish_reason: str = ""


@dataclass
class Found:
    """Of one way to ask."""

    num_whole: int = 0
    num_streamed: int = 0
    num_cut: int = 0
    num_calls: int = 0
    wrong: list[str] = field(default_factory=list)
    forms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FORMS, 0))

    @property
    def num_valid(self) -> int:
        return self.num_whole + self.num_streamed


@dataclass(frozen=True)
class Asker:
    server: Server
    client: openai.AsyncOpenAI
    max_tokens: int

    async def ask(self, way: str, run: int, *, is_stream: bool, **more: Any) -> Answer:
        """Run number `run` of a way; other runs have other forms, questions and seeds."""
        form = list(FORMS)[run % len(FORMS)]
        asked: dict[str, Any] = {
            "model": self.server.model,
            "messages": [{"role": "user", "content": f"Example number {run} of {form}, please."}],
            "max_tokens": self.max_tokens,
            "seed": run,
            "prompt_cache_key": f"{way} {run} {is_stream}",
            **more,
        }
        if way == "json_schema":
            schema = {"name": form, "strict": True, "schema": FORMS[form].model_json_schema()}
            asked["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            asked["tools"] = TOOLS
            named = {"type": "function", "function": {"name": form}}
            asked["tool_choice"] = named if way == "named" else "required"
            asked["parallel_tool_calls"] = run % PARALLEL == 0 and way == "required"
        create = self.client.chat.completions.create
        if is_stream:
            return await added_up(await create(**asked, stream=True))
        (choice,) = (await create(**asked)).choices
        calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
        return Answer(choice.message.content or "", calls, choice.finish_reason)


async def added_up(stream: Any) -> Answer:
    """The sum of a stream's deltas; a call begins with its id and name, calls come one after the other."""
    answer, ids = Answer(), []
    async for chunk in stream:
        for choice in chunk.choices:
            if answer.finish_reason:
                raise NotAsAskedError("something came behind the finish reason")
            answer.finish_reason = choice.finish_reason or ""
            answer.content += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                if part.index == len(answer.calls) and part.id and part.function.name:
                    ids.append(part.id)
                    answer.calls.append((part.function.name, ""))
                elif part.index != len(answer.calls) - 1 or part.id or part.function.name:
                    raise NotAsAskedError(f"call out of order: {part}")
                name, arguments = answer.calls[-1]
                answer.calls[-1] = (name, arguments + (part.function.arguments or ""))
    if len(set(ids)) != len(ids):
        raise NotAsAskedError("two calls have one id")
    return answer


def is_streamed(run: int) -> bool:
    """Every form is, every second time."""
    return run // len(FORMS) % 2 == 1


def judge(way: str, run: int, answer: Answer, found: Found) -> None:
    """Counts an answer, or tells what is wrong with it."""
    form = list(FORMS)[run % len(FORMS)]
    pieces = [(form, answer.content)] if way == "json_schema" else answer.calls
    if answer.finish_reason == "length":
        # All but the last call are whole.
        pieces = pieces[:-1]
    elif answer.finish_reason != ("stop" if way == "json_schema" else "tool_calls"):
        raise NotAsAskedError(f"finish reason {answer.finish_reason!r}")
    elif not pieces:
        raise NotAsAskedError("no call")
    if way == "named" and any(name != form for name, _ in pieces):
        raise NotAsAskedError("a call of another tool")
    if len(pieces) > 1 and (way != "required" or run % PARALLEL):
        raise NotAsAskedError("several calls")
    if way == "json_schema" and answer.calls:
        raise NotAsAskedError("a call that nobody asked for")
    for name, text in pieces:
        FORMS[name].model_validate_json(text)
        jsonschema.Draft202012Validator(FORMS[name].model_json_schema()).validate(json.loads(text))
        found.forms[name] += 1
    if answer.finish_reason == "length":
        found.num_cut += 1
    elif is_streamed(run):
        found.num_streamed += 1
    else:
        found.num_whole += 1
    found.num_calls += len(answer.calls)


async def until_ended(asker: Asker, way: str, args: argparse.Namespace) -> Found:
    """Asks until --runs answers have ended by themselves, or four times so many were asked."""
    found = Found()
    runs = iter(range(4 * args.runs))

    async def client() -> None:
        for run in runs:
            try:
                judge(way, run, await asker.ask(way, run, is_stream=is_streamed(run)), found)
            except (
                NotAsAskedError,
                ValidationError,
                ValueError,
                KeyError,
                jsonschema.ValidationError,
            ) as error:
                found.wrong.append(f"run {run}: {str(error)[:500]}")
            except openai.APIError as error:
                found.wrong.append(f"run {run}: {error}")
            if found.num_valid + len(found.wrong) >= args.runs:
                return

    await asyncio.gather(*(client() for _ in range(args.clients)))
    return found


async def pairs(asker: Asker, way: str, num_pairs: int) -> list[int]:
    """Runs in which the stream did not add up to the whole answer."""
    differ = []
    for run in range(num_pairs):
        # Both with a prompt that is in no cache: sums that are made in another order may part at a tie.
        whole = await asker.ask(way, run, is_stream=False, prompt_cache_key=f"{way} {run} whole, alone")
        if await asker.ask(way, run, is_stream=True, prompt_cache_key=f"{way} {run} alone") != whole:
            differ.append(run)
    return differ


async def measure(server: Server, args: argparse.Namespace) -> list[dict[str, Any]]:
    results = []
    url = f"http://127.0.0.1:{server.port}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=server.key, max_retries=4, timeout=600) as client:
        asker = Asker(server, client, args.max_tokens)
        for way in args.ways:
            begin = time.monotonic()
            found = await until_ended(asker, way, args)
            one = {"way": way, **asdict(found), "num_pairs": args.pairs}
            one["seconds"] = round(time.monotonic() - begin, 1)
            one["pairs_that_differ"] = await pairs(asker, way, args.pairs)
            print(one, flush=True)
            results.append(one)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--server", default="uvicorn")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start_ours(
            args.model, Path(folder), Sizes(2, args.clients, 4096 * args.clients), server=args.server
        )
        try:
            results = asyncio.run(measure(server, args))
        finally:
            server.stop()
    if args.json:
        write_results(args.json, {"model": args.model.name, "results": results})
    is_good = [
        not one["wrong"]
        and not one["pairs_that_differ"]
        and one["num_whole"] + one["num_streamed"] >= args.runs
        for one in results
    ]
    return 0 if all(is_good) else 1


if __name__ == "__main__":
    sys.exit(main())
