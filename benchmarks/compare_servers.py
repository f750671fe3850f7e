#!/usr/bin/env python3
"""Skippy beside llama.cpp's own C++ server: the same requests, the same file, the same threads, in turn.

    .venv/bin/python benchmarks/compare_servers.py MODEL.gguf --peer-python PEER/bin/python \
        [--rounds 5] [--scenarios stream,shared,long] [--clients 1,16,64] [--server daphne] [--json OUT]

PEER is an environment of its own with the package xllamacpp (`pip install xllamacpp`), which carries the
peer prebuilt. Both servers run at once, but only one is asked at a time: each round drives ours, then
the peer, then (next round) the peer first. What is printed are medians of the rounds' ratios with
their spread, since this kind of machine is noisy and absolute numbers mean little.

Scenarios:
    stream   --clients at once, 100-word prompts, 64 tokens each: output tokens per second
    shared   8 clients, 24 requests of 400 words that share 90 %: time to first token, median and p99
    long     8 running streams, then a prompt of 3,000 tokens arrives: their worst gap
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
sys.path.insert(0, str(HERE))

from load import level, prompt, stream  # noqa: E402

LANES = 16
NUM_SHARED_REQUESTS = 24
NUM_LONG_STREAMS = 8


@dataclass
class Server:
    """A server that answers the OpenAI API at a port."""

    name: str
    port: int
    model: str
    key: str
    process: subprocess.Popen[bytes]
    seeds: int = field(default=0)

    def arguments(self, **more: Any) -> Namespace:
        given = {
            "path": "/v1/chat/completions",
            "key": self.key,
            "model": self.model,
            "temperature": 0.8,
            "timeout": 600.0,
            "ignore_eos": True,
            "shared_prefix": 0.0,
            "prompt_words": 100,
            "max_tokens": 64,
        }
        return Namespace(**(given | more))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_ours(model: Path, home: str, args: Namespace) -> Server:
    """`manage.py serve` with a state folder of its own; the key is what its first start shows."""
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "SKIPPY_HOME": home,
        "SKIPPY_PORT": str(port),
        "SKIPPY_MODEL": str(model),
        "SKIPPY_MODEL_ID": "bench",
        "SKIPPY_SERVER": args.server,
        "SKIPPY_THREADS": str(args.threads),
        "SKIPPY_LANES": str(args.lanes),
        "SKIPPY_CONTEXT": str(args.context),
    }
    log = Path(home) / "serve.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "serve"], cwd=CHECKOUT, env=environment, stdout=output
        )
    deadline = time.monotonic() + 120
    while "Skippy is ready" not in (text := log.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"our server did not start:\n{text}")
        time.sleep(0.2)
    found = re.search(r"sk-skippy-\w+", text)
    assert found is not None
    return Server("ours", port, "bench", found[0], process)


def start_peer(model: Path, args: Namespace) -> Server:
    port = free_port()
    command = [args.peer_python, str(HERE / "llama_server.py"), str(model), "--port", str(port)]
    command += ["--lanes", str(args.lanes), "--context", str(args.context), "--threads", str(args.threads)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while True:
        try:
            with urlopen(Request(f"http://127.0.0.1:{port}/health"), timeout=2) as answer:
                if answer.status == 200:
                    return Server("llama-server", port, "peer", "none", process)
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the peer did not start") from None
            time.sleep(0.2)


async def measure_stream(server: Server, clients: int) -> dict[str, float]:
    server.seeds += 1
    args = server.arguments(requests=max(4, 2 * clients))
    row = await level(args, "127.0.0.1", server.port, clients, 100_000 * server.seeds + clients)
    if row["failed"]:
        raise SystemExit(f"{server.name}: {row['errors']}")
    return {"tokens_per_second": row["tok_per_s"]}


async def measure_shared(server: Server) -> dict[str, float]:
    server.seeds += 1
    args = server.arguments(requests=NUM_SHARED_REQUESTS, prompt_words=400, shared_prefix=0.9, max_tokens=16)
    row = await level(args, "127.0.0.1", server.port, 8, 100_000 * server.seeds)
    if row["failed"]:
        raise SystemExit(f"{server.name}: {row['errors']}")
    return {"ttft_p50_ms": row["ttft_ms_p50"], "ttft_p99_ms": row["ttft_ms_p99"]}


async def measure_long(server: Server) -> dict[str, float]:
    """The worst gap between two tokens of any running stream, from the arrival of the long prompt."""
    server.seeds += 1
    first = 100_000 * server.seeds

    def body(words: int, tokens: int, seed: int) -> dict[str, Any]:
        return {
            "model": server.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": tokens,
            "ignore_eos": True,
            "seed": seed,
            "messages": [{"role": "user", "content": prompt(first + seed, words, 0.0)}],
        }

    def run(words: int, tokens: int, seed: int) -> Any:
        request = body(words, tokens, seed)
        return stream("127.0.0.1", server.port, "/v1/chat/completions", server.key, request, 600.0)

    streams = [asyncio.create_task(run(20, 400, n)) for n in range(NUM_LONG_STREAMS)]
    await asyncio.sleep(3.0)
    arrival = asyncio.create_task(run(1500, 1, 99))
    results = await asyncio.gather(*streams)
    await arrival
    for result in results:
        if not result["ok"]:
            raise SystemExit(f"{server.name}: {result['error']}")
    return {"worst_gap_ms": 1e3 * max(max(result["gaps"]) for result in results)}


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


async def run(args: Namespace, ours: Server, peer: Server) -> dict[str, Any]:
    """Interleaved rounds; returns every number, and prints the ratios ours ÷ peer."""
    scenarios: list[tuple[str, Any]] = []
    for name in args.scenarios.split(","):
        if name == "stream":
            scenarios += [
                (f"stream, {clients} clients", partial(measure_stream, clients=int(clients)))
                for clients in args.clients.split(",")
            ]
        elif name == "shared":
            scenarios.append(("shared prefix", measure_shared))
        elif name == "long":
            scenarios.append(("long prompt beside streams", measure_long))
        else:
            raise SystemExit(f"no scenario {name!r}")
    numbers: dict[str, Any] = {}
    for title, measure in scenarios:
        await measure(ours)
        await measure(peer)
        rows: list[dict[str, dict[str, float]]] = []
        for number in range(args.rounds):
            order = (ours, peer) if number % 2 == 0 else (peer, ours)
            rows.append({server.name: await measure(server) for server in order})
        for measured in rows[0][ours.name]:
            ratios = [row[ours.name][measured] / row[peer.name][measured] for row in rows]
            mine = [row[ours.name][measured] for row in rows]
            theirs = [row[peer.name][measured] for row in rows]
            numbers[f"{title}: {measured}"] = {"ratios": ratios, "ours": mine, "peer": theirs}
            print(f"{title:28} {measured:18} ratio {spread(ratios)}", end="  ", flush=True)
            print(f"ours {spread(mine)}  peer {spread(theirs)}", flush=True)
    return numbers


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenarios", default="stream,shared,long")
    parser.add_argument("--clients", default="1,16,64")
    parser.add_argument("--server", default="daphne", choices=("daphne", "uvicorn"))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    # So that the servers are stopped below also where this is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="skippy-bench-") as home:
        ours = start_ours(args.model.resolve(), home, args)
        try:
            peer = start_peer(args.model.resolve(), args)
            try:
                numbers = asyncio.run(run(args, ours, peer))
            finally:
                peer.stop()
        finally:
            ours.stop()
    if args.json:
        shown = [re.sub(r"^/.*/", "", part) for part in sys.argv]
        args.json.write_text(
            json.dumps({"command": shown, "machine": machine(), "results": numbers}, indent=1) + "\n"
        )
    return 0


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    names = re.findall(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


if __name__ == "__main__":
    sys.exit(main())
