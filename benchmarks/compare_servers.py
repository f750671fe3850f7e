#!/usr/bin/env python3
"""Skippy beside its peers: the same requests, the same file, the same threads, in turn.

    .venv/bin/python benchmarks/compare_servers.py MODEL.gguf \
        --peers llama-server,examples-server [--llama-server-python PEER/bin/python] \
        [--examples-server-python EXAMPLES/bin/python --examples-server-script SERVER.py] \
        [--rounds 5] [--scenarios stream,shared,long] [--clients 1,16,64] [--temperature 0.8] \
        [--server daphne] [--json OUT]

Peers, each in an environment of its own:
    llama-server      llama.cpp's own C++ server, prebuilt in the package xllamacpp:
                      python -m venv PEER; PEER/bin/pip install xllamacpp
    examples-server   llama-cpp-python's examples/server, a batching server in Python. It is in the
                      source package only; its bindings should be the wheel that our server has:
                      pip download --no-binary llama-cpp-python --no-deps llama-cpp-python==VERSION
                      tar xzf llama_cpp_python-VERSION.tar.gz llama_cpp_python-VERSION/examples/server
                      python -m venv EXAMPLES; EXAMPLES/bin/pip install WHEEL \
                          fastapi jinja2 numpy openai pydantic safetensors uvicorn websockets

All servers run at once, but only one is asked at a time: each round drives them all, and each round
begins with another one. What is printed are medians of the rounds' ratios with their spread, since
this kind of machine is noisy and absolute numbers mean little.

Scenarios:
    stream   --clients at once, 100-word prompts, 64 tokens each: output tokens per second
    shared   8 clients, 24 requests of 400 words that share 90 %: time to first token, median and p99
    long     8 running streams, then a prompt of 3,000 tokens arrives: their worst gap

examples-server has no top_k and sorts the whole vocabulary for each token that it draws with a
temperature; with --temperature 0 (greedy, everywhere) it does not, and what is left is the server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from load import level, prompt, stream  # noqa: E402
from servers import (  # noqa: E402
    Server,
    Sizes,
    start_examples_server,
    start_llama_server,
    start_ours,
    write_results,
)

LANES = 16
NUM_SHARED_REQUESTS = 24
NUM_LONG_STREAMS = 8
LONG_AFTER_S = 3.0
# 3,000 tokens of SmolLM2.
LONG_WORDS = 2800


def start_all(args: Namespace, folder: Path, stack: ExitStack) -> list[Server]:
    """Ours first; `stack` stops them."""
    model: Path = args.model.resolve()
    sizes = Sizes(args.threads, args.lanes, args.context)

    def keep(server: Server) -> Server:
        stack.callback(server.stop)
        return server

    servers = [keep(start_ours(model, folder / "ours", sizes, server=args.server))]
    for name in args.peers.split(","):
        if name == "llama-server":
            servers.append(keep(start_llama_server(model, args.llama_server_python, sizes)))
        elif name == "examples-server":
            python, script = args.examples_server_python, args.examples_server_script
            servers.append(keep(start_examples_server(model, python, script, folder, sizes)))
        else:
            raise SystemExit(f"no peer {name!r}")
    return servers


async def drive(server: Server, args: Namespace, clients: int, first_seed: int) -> dict[str, Any]:
    """One level of load, all of whose answers must be whole."""
    row: dict[str, Any] = await level(args, "127.0.0.1", server.port, clients, first_seed)
    wanted = args.requests * args.max_tokens
    if row["failed"] or row["tokens"] != wanted:
        raise SystemExit(f"{server.name}: {row['tokens']} of {wanted} tokens; {row['errors']}")
    return row


async def measure_stream(server: Server, clients: int, temperature: float) -> dict[str, float]:
    server.seeds += 1
    args = server.arguments(requests=max(4, 2 * clients), temperature=temperature)
    row = await drive(server, args, clients, 100_000 * server.seeds + clients)
    return {"tokens_per_second": row["tok_per_s"]}


async def measure_shared(server: Server, temperature: float, *, is_new: bool) -> dict[str, float]:
    """`is_new`: nobody has asked with this beginning before; else it is that of the rounds before."""
    server.seeds += 1
    args = server.arguments(
        requests=NUM_SHARED_REQUESTS,
        prompt_words=400,
        shared_prefix=0.9,
        shared_seed=1 + server.seeds if is_new else 1,
        max_tokens=16,
        temperature=temperature,
    )
    row = await drive(server, args, 8, 100_000 * server.seeds)
    return {"ttft_p50_ms": row["ttft_ms_p50"], "ttft_p99_ms": row["ttft_ms_p99"]}


async def measure_long(server: Server, temperature: float) -> dict[str, float]:
    """The worst gap between two tokens of any running stream, from the arrival of the long prompt."""
    server.seeds += 1
    first = 100_000 * server.seeds

    def body(words: int, tokens: int, seed: int) -> dict[str, Any]:
        return {
            "model": server.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": tokens,
            "temperature": temperature,
            "seed": seed,
            "messages": [{"role": "user", "content": prompt(first + seed, words, 0.0)}],
            **server.extra,
        }

    def run(words: int, tokens: int, seed: int) -> Any:
        request = body(words, tokens, seed)
        return stream("127.0.0.1", server.port, "/v1/chat/completions", server.key, request, 600.0)

    begin_ts = time.perf_counter()
    streams = [asyncio.create_task(run(20, 240, n)) for n in range(NUM_LONG_STREAMS)]
    await asyncio.sleep(LONG_AFTER_S)
    arrival_s = time.perf_counter() - begin_ts
    long = await run(LONG_WORDS, 4, 99)
    first_token_s = time.perf_counter() - begin_ts
    results = await asyncio.gather(*streams)
    for result in (long, *results):
        if not result["ok"]:
            raise SystemExit(f"{server.name}: {result['error']}")
    if min(result["total"] for result in results) < first_token_s:
        raise SystemExit(f"{server.name}: streams ended before the long prompt was computed")
    worst = 0.0
    for result in results:
        at_s = result["ttft"]
        for gap in result["gaps"]:
            at_s += gap
            # What lies before the arrival is the streams' own beginning.
            if at_s >= arrival_s:
                worst = max(worst, gap)
    return {"worst_gap_ms": 1e3 * worst, "long_ttft_ms": 1e3 * long["ttft"]}


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def scenarios(args: Namespace) -> list[tuple[str, Any]]:
    """Titles and what measures them on a server."""
    found: list[tuple[str, Any]] = []
    for name in args.scenarios.split(","):
        if name == "stream":
            found += [
                (
                    f"stream, {clients} clients",
                    partial(measure_stream, clients=int(clients), temperature=args.temperature),
                )
                for clients in args.clients.split(",")
            ]
        elif name == "shared":
            for title, is_new in (("new shared prefix", True), ("known shared prefix", False)):
                work = partial(measure_shared, temperature=args.temperature, is_new=is_new)
                found.append((title, work))
        elif name == "long":
            found.append(("long prompt beside streams", partial(measure_long, temperature=args.temperature)))
        else:
            raise SystemExit(f"no scenario {name!r}")
    return found


async def run(args: Namespace, servers: list[Server]) -> dict[str, Any]:
    """Interleaved rounds; returns every number, and prints the ratios ours ÷ each peer."""
    ours, *peers = servers
    numbers: dict[str, Any] = {}
    for title, measure in scenarios(args):
        for server in servers:
            await measure(server)
        rows: list[dict[str, dict[str, float]]] = []
        for number in range(args.rounds):
            first = number % len(servers)
            rows.append({one.name: await measure(one) for one in servers[first:] + servers[:first]})
        for measured in rows[0][ours.name]:
            values = {one.name: [row[one.name][measured] for row in rows] for one in servers}
            ratios = {
                peer.name: [
                    mine / theirs for mine, theirs in zip(values[ours.name], values[peer.name], strict=True)
                ]
                for peer in peers
            }
            numbers[f"{title}: {measured}"] = {"ratios": ratios, "values": values}
            for name, found in ratios.items():
                print(f"{title:27} {measured:17} ÷ {name:15} ratio {spread(found)}", end="  ")
                print(f"ours {spread(values[ours.name])}  peer {spread(values[name])}", flush=True)
    return numbers


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--peers", default="llama-server")
    parser.add_argument("--llama-server-python", default="python")
    parser.add_argument("--examples-server-python", default="python")
    parser.add_argument("--examples-server-script", type=Path, default=Path("server.py"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenarios", default="stream,shared,long")
    parser.add_argument("--clients", default="1,16,64")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--server", default="daphne", choices=("daphne", "uvicorn"))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    # So that the servers are stopped below also where this is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="skippy-bench-") as folder, ExitStack() as stack:
        numbers = asyncio.run(run(args, start_all(args, Path(folder), stack)))
    if args.json:
        write_results(args.json, {"results": numbers})
    return 0


if __name__ == "__main__":
    sys.exit(main())
