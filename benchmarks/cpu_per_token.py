#!/usr/bin/env python3
"""CPU time that a token costs outside of llama.cpp: the engine thread's, and the whole web process's.

    .venv/bin/python benchmarks/cpu_per_token.py TINY.gguf [--servers daphne,uvicorn] [--rounds 3] \
        [--clients 16] [--window 3] [--py-spy PYSPY/bin/py-spy] [--json OUT]

TINY is a model whose weights cost nothing (`tests.model.tiny_model.write_tiny_model`). Each round
starts the clients, waits until all of them are decoding, and takes two readings of the server's own
CPU clocks (measured_server.py) with nothing but streaming between them. Per token, in µs:

    engine     CPU time of the engine thread, less what it spent inside functions of llama.cpp
    process    CPU time of the process, less llama.cpp's compute threads and all calls into llama.cpp

With --py-spy (`pip install py-spy`, in an environment of its own) one more round is sampled, apart
from the measured ones, and the functions of the engine thread and of the event loop are shown with
their shares of these µs (samples inside functions of llama.cpp left out).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from load import prompt, stream  # noqa: E402
from measured_server import SOCKET_NAME  # noqa: E402
from servers import Server, Sizes, start_ours, write_results  # noqa: E402

PATIENCE_S = 20.0
NUM_WARM_TOKENS = 64
SAMPLES_PER_SECOND = 500
NUM_SHOWN = 25
METER_FRAME = "Meter.wrap"


class Meter:
    """The meter's socket of a measured server."""

    def __init__(self, home: Path) -> None:
        self._path = home / SOCKET_NAME

    def read(self) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._path))
            data = b""
            while part := connection.recv(1 << 16):
                data += part
        reading: dict[str, Any] = json.loads(data)
        return reading

    async def until(self, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition(await asyncio.to_thread(self.read)):
            if time.monotonic() > deadline:
                raise SystemExit("the server did not come to the state that is measured")
            await asyncio.sleep(0.1)


@dataclass
class Profile:
    """Samples of one thread outside of llama.cpp: in which function, and with which one on the stack."""

    own: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)

    def add(self, frames: list[str], count: int) -> None:
        if not frames or METER_FRAME in frames[-1]:
            return
        self.own[frames[-1]] += count
        self.total.update(dict.fromkeys(frames, count))

    def lines(self, thread_us: float) -> list[str]:
        """The samples as shares of the thread's own µs a token."""
        scale = thread_us / max(1, self.own.total())
        return [
            f"own {scale * count:6.1f} us  total {scale * self.total[name]:6.1f} us  {name}"
            for name, count in self.own.most_common(NUM_SHOWN)
        ]


def per_token(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
    """Microseconds a token between two readings, and how fast it went."""
    tokens = after["tokens"] - before["tokens"]
    if not tokens or after["prefill_tokens"] != before["prefill_tokens"]:
        raise SystemExit("there was more, or less, than streaming between the readings: try again")

    def cpu(tid: str) -> int:
        begin: int = before["threads"].get(tid, {"cpu_ns": 0})["cpu_ns"]
        return int(after["threads"][tid]["cpu_ns"]) - begin

    def spent(name: str) -> int:
        return int(after[name]) - int(before[name])

    engine = str(after["engine_tid"])
    inside = sum(after["engine_inside_ns"].values()) - sum(before["engine_inside_ns"].values())
    compute = sum(cpu(tid) for tid, thread in after["threads"].items() if thread["name"] is None)
    own_engine = cpu(engine) - inside
    own = spent("process_ns") - compute - spent("inside_ns")
    named = {
        f"thread {thread['name']}": cpu(tid) / tokens / 1e3
        for tid, thread in after["threads"].items()
        if thread["name"] is not None and tid != engine and cpu(tid) > 1e6
    }
    return {
        "engine": own_engine / tokens / 1e3,
        "process": own / tokens / 1e3,
        **named,
        "inside llama.cpp, engine thread": inside / tokens / 1e3,
        "inside llama.cpp, compute threads": compute / tokens / 1e3,
        "tokens a step": tokens / spent("steps"),
        "tokens a second": tokens / spent("wall_ns") * 1e9,
    }


@asynccontextmanager
async def streaming(server: Server, clients: int, max_tokens: int) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """So many clients at once; those that have not ended are closed at the end."""
    server.seeds += 1

    def run(number: int) -> Any:
        body = {
            "model": server.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": max_tokens,
            "seed": number,
            "messages": [{"role": "user", "content": prompt(1000 * server.seeds + number, 10, 0.0)}],
            **server.extra,
        }
        return stream("127.0.0.1", server.port, "/v1/chat/completions", server.key, body, 600.0)

    tasks = [asyncio.create_task(run(number)) for number in range(clients)]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def count_frames(server: Server, clients: int) -> float:
    """Warm everything up; how many frames with text a token has."""
    async with streaming(server, clients, NUM_WARM_TOKENS) as tasks:
        results = await asyncio.gather(*tasks)
    for result in results:
        if not result["ok"]:
            raise SystemExit(f"a request failed: {result['error']}")
    num_frames = sum(len(result["gaps"]) + 1 for result in results)
    return num_frames / float(sum(result["tokens"] for result in results))


async def measure(server: Server, meter: Meter, args: Namespace) -> dict[str, float]:
    async with streaming(server, args.clients, args.max_tokens):
        await meter.until(lambda now: now["num_decoding"] == args.clients)
        before = await asyncio.to_thread(meter.read)
        await asyncio.sleep(args.window)
        after = await asyncio.to_thread(meter.read)
    if after["num_decoding"] != args.clients:
        raise SystemExit("some answers ended before the second reading: a shorter --window is needed")
    await meter.until(lambda now: now["num_lanes_used"] == 0)
    return per_token(before, after)


async def profile(server: Server, meter: Meter, args: Namespace) -> dict[str, Profile]:
    """Where each busy thread of Python runs, by name."""
    async with streaming(server, args.clients, args.max_tokens):
        await meter.until(lambda now: now["num_decoding"] == args.clients)
        reading = await asyncio.to_thread(meter.read)
        with tempfile.NamedTemporaryFile(suffix=".raw") as raw:
            command = [args.py_spy, "record", "--pid", str(reading["pid"]), "--threads", "--full-filenames"]
            command += ["--duration", str(max(1, int(args.window))), "--rate", str(SAMPLES_PER_SECOND)]
            command += ["--format", "raw", "--output", raw.name]
            await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
            names = {tid: str(thread["name"]) for tid, thread in reading["threads"].items()}
            return profiles(Path(raw.name).read_text(), names)


def profiles(raw: str, names: dict[str, str]) -> dict[str, Profile]:
    """From py-spy's lines "thread;frame;frame;… count"."""
    found: dict[str, Profile] = {}
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        head, *rest = stack.split(";")
        tid = "".join(re.findall(r"\d+", head)[:1])
        found.setdefault(names.get(tid, head), Profile()).add([shorten(one) for one in rest], int(count))
    return found


def shorten(frame: str) -> str:
    """Without the folders of this machine, and by function rather than by line."""
    name, _, place = frame.partition(" (")
    path = place.rpartition(":")[0]
    for root in ("site-packages/", f"{HERE.parent}/", "python3.11/"):
        path = path.rpartition(root)[2]
    return f"{name} ({path})" if path else name.split(" (")[0]


async def run(server: Server, home: Path, args: Namespace) -> dict[str, Any]:
    meter = Meter(home)
    frames = await count_frames(server, args.clients)
    rows = [await measure(server, meter, args) for _ in range(args.rounds)]
    found: dict[str, Any] = {
        name: round(statistics.median(row.get(name, 0.0) for row in rows), 1) for name in rows[0]
    }
    found["frames a token"] = round(frames, 2)
    found["rounds"] = {name: [round(row[name], 1) for row in rows] for name in ("engine", "process")}
    if args.py_spy:
        times = {"skippy-engine": found["engine"], "MainThread": found["thread MainThread"]}
        threads = await profile(server, meter, args)
        found["profile"] = {name: threads[name].lines(us) for name, us in times.items() if name in threads}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--servers", default="daphne,uvicorn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=900)
    parser.add_argument("--window", type=float, default=3.0, help="seconds between the two readings")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--py-spy")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sizes = Sizes(args.threads, args.clients, 16_384)
    results = {}
    for name in args.servers.split(","):
        with tempfile.TemporaryDirectory(prefix="skippy-bench-") as folder:
            home = Path(folder)
            command = ("benchmarks/measured_server.py", "serve")
            server = start_ours(args.model.resolve(), home, sizes, server=name, command=command)
            try:
                results[name] = asyncio.run(run(server, home, args))
            finally:
                server.stop()
        show(name, results[name])
    if args.json:
        write_results(args.json, {"us_per_token": results})
    return 0


def show(name: str, found: dict[str, Any]) -> None:
    for key, value in found.items():
        if key == "profile":
            for thread, lines in value.items():
                print(f"{name}: {thread}", *lines, sep="\n    ")
        else:
            print(f"{name}: {key:36} {value}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
