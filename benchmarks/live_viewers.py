#!/usr/bin/env python3
"""What do those who look at the live page cost the engine, and does each get a snapshot a second?

    .venv/bin/python benchmarks/live_viewers.py MODEL.gguf [--servers daphne,uvicorn] [--viewers 50] \
        [--streams 8] [--rounds 4] [--window 5] [--json OUT]

Starts the service with a meter beside it (measured_server.py) and --streams streams, and in turns lets
nobody and --viewers WebSockets look on: none, all, all, none in each round, so that what changes with the
length of the answers changes for both. The viewers are a process of their own, whose CPU time is told: on a
machine that is full it is taken from the engine's threads, and is not the service's.

    tokens_per_s          of all streams together
    engine_us_per_token   CPU time of the engine thread outside of llama.cpp's functions
    engine_thread_us      CPU time of the engine thread, llama.cpp included
    served_ms_per_s       CPU time of the web process outside of llama.cpp, for a second

Then so many more look on who never say that they have read: each may get three snapshots, and the others as
many as before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cpu_per_token  # noqa: E402
from cpu_per_token import Meter, count_frames, per_token, streaming  # noqa: E402
from servers import CHECKOUT, Server, Sizes, start_ours, write_results  # noqa: E402

SETTLE_S = 2.0
START_PATIENCE_S = 120.0
MAX_UNREAD = 3
_SESSION = """
from django.contrib.auth import get_user_model
from django.test import Client
user, _ = get_user_model().objects.get_or_create(username="viewer", is_staff=True, is_superuser=True)
client = Client()
client.force_login(user)
print("session", client.cookies["sessionid"].value)
"""
PATH = "/console/live/socket"
NUMBERS = ("tokens_per_s", "engine_us_per_token", "engine_thread_us", "served_ms_per_s")


def session_of(home: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "SKIPPY_HOME": str(home)}
    command = [sys.executable, "manage.py", "shell", "-c", _SESSION]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split("session ")[1].split()[0]


async def look_on(port: int, session: str, *, num_viewers: int, num_slow: int) -> None:
    """The viewers' process: until a line comes, and then one line of what they have got."""
    from websockets.asyncio.client import connect

    told: list[list[float]] = [[] for _ in range(num_viewers + num_slow)]
    num_bytes = 0
    ready = asyncio.Barrier(num_viewers + num_slow + 1)

    async def look(place: int) -> None:
        nonlocal num_bytes
        url, origin = f"ws://127.0.0.1:{port}{PATH}", f"http://127.0.0.1:{port}"
        headers = {"Cookie": f"sessionid={session}"}
        async with connect(
            url, origin=origin, additional_headers=headers, proxy=None, compression=None
        ) as socket:
            is_ready = False
            while True:
                text = await socket.recv(decode=False)
                told[place].append(time.monotonic())
                num_bytes = len(text)
                if place < num_viewers:
                    await socket.send("read")
                if not is_ready:
                    is_ready = True
                    await ready.wait()

    tasks = [asyncio.create_task(look(place)) for place in range(num_viewers + num_slow)]
    await asyncio.wait([asyncio.create_task(ready.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED)
    print("all look on", flush=True)
    began_s = time.process_time()
    await asyncio.to_thread(sys.stdin.readline)
    cpu_s = time.process_time() - began_s
    num_lost = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps({"told": told, "bytes": num_bytes, "cpu_s": cpu_s, "lost": num_lost}), flush=True)


class Viewers:
    """The process of those who look on."""

    def __init__(self, server: Server, session: str, *, num_viewers: int, num_slow: int = 0) -> None:
        command = [sys.executable, __file__, "--look-on", str(server.port), session]
        command += [str(num_viewers), str(num_slow)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._num_viewers = num_viewers

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    async def ready(self) -> None:
        if not await asyncio.to_thread(self._line):
            raise SystemExit("the viewers' process has ended")

    async def leave(self) -> dict[str, Any]:
        """What the viewers have got, and what the slow ones have."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found = json.loads(await asyncio.to_thread(self._line))
        self._process.wait(10)
        viewers, slow = found["told"][: self._num_viewers], found["told"][self._num_viewers :]
        gaps = sorted(later - one for told in viewers for one, later in pairwise(told))
        return {
            "lost": found["lost"],
            "snapshot_bytes": found["bytes"],
            "viewers_cpu_s": round(found["cpu_s"], 3),
            "fewest_and_most_snapshots": [min(map(len, viewers)), max(map(len, viewers))],
            "gap_s_p50": round(statistics.median(gaps), 3) if gaps else None,
            "gap_s_p99": round(gaps[int(0.99 * (len(gaps) - 1))], 3) if gaps else None,
            "gap_s_max": round(gaps[-1], 3) if gaps else None,
            "most_of_slow_ones": max(map(len, slow), default=None),
        }


def numbers(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
    found = per_token(before, after)
    return {
        "tokens_per_s": found["tokens a second"],
        "engine_us_per_token": found["engine"],
        "engine_thread_us": found["engine"] + found["inside llama.cpp, engine thread"],
        "served_ms_per_s": found["process"] * found["tokens a second"] / 1e3,
    }


async def window(meter: Meter, seconds: float) -> dict[str, float]:
    await asyncio.sleep(SETTLE_S)
    before = await asyncio.to_thread(meter.read)
    await asyncio.sleep(seconds)
    return numbers(before, await asyncio.to_thread(meter.read))


async def one_round(
    server: Server, meter: Meter, session: str, args: Namespace
) -> tuple[dict[str, list[dict[str, float]]], dict[str, Any]]:
    found: dict[str, list[dict[str, float]]] = {"none": [], "all": []}
    async with streaming(server, args.streams, args.max_tokens):
        await meter.until(lambda now: now["num_decoding"] == args.streams)
        found["none"].append(await window(meter, args.window))
        viewers = Viewers(server, session, num_viewers=args.viewers)
        await viewers.ready()
        found["all"] += [await window(meter, args.window), await window(meter, args.window)]
        seen = await viewers.leave()
        found["none"].append(await window(meter, args.window))
        reading = await asyncio.to_thread(meter.read)
    if reading["num_decoding"] != args.streams:
        raise SystemExit("some answers ended meanwhile: a shorter --window is needed")
    await meter.until(lambda now: now["num_lanes_used"] == 0)
    return found, seen


async def slow_ones(server: Server, session: str, args: Namespace) -> dict[str, Any]:
    """As many again who never say that they have read."""
    viewers = Viewers(server, session, num_viewers=args.viewers, num_slow=args.viewers)
    await viewers.ready()
    before_kb = resident_kb(server)
    await asyncio.sleep(max(args.window, 8.0))
    grown_kb = resident_kb(server) - before_kb
    seen = await viewers.leave()
    if seen["most_of_slow_ones"] > MAX_UNREAD:
        raise SystemExit(f"a viewer who reads nothing got {seen['most_of_slow_ones']} snapshots")
    return {**seen, "web_process_grew_kb": grown_kb}


def resident_kb(server: Server) -> int:
    """Of the supervisor's largest child: the web process."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    sizes = []
    for pid in children:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        sizes += [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return max(sizes)


async def measure(server: Server, home: Path, args: Namespace) -> dict[str, Any]:
    cpu_per_token.PATIENCE_S = START_PATIENCE_S
    meter, session = Meter(home), session_of(home)
    await count_frames(server, args.streams)
    rounds, seen = [], []
    for _ in range(args.rounds):
        found, looked = await one_round(server, meter, session, args)
        rounds.append(found)
        seen.append(looked)
        print(json.dumps({"round": len(rounds), **looked}), flush=True)
    told: dict[str, Any] = {}
    for name in NUMBERS:
        by_who = {who: [one[name] for round in rounds for one in round[who]] for who in ("none", "all")}
        none, all_ = (statistics.median(by_who[who]) for who in ("none", "all"))
        # Of each round by itself: its windows stand none, all, all, none, so what grows with the answers'
        # length is in both sums alike.
        ratios = [
            sum(one[name] for one in each["all"]) / sum(one[name] for one in each["none"]) for each in rounds
        ]
        told[name] = {
            "nobody": round(none, 2),
            "viewers": round(all_, 2),
            "ratio": round(statistics.median(ratios), 4),
            "ratios": sorted(round(one, 4) for one in ratios),
            "each": {who: [round(one, 2) for one in values] for who, values in by_who.items()},
        }
    more_ms = told["served_ms_per_s"]["viewers"] - told["served_ms_per_s"]["nobody"]
    told["viewers_ms_per_s"] = round(more_ms, 2)
    told["viewers_share_of_all_cores"] = round(more_ms / 1000 / (os.cpu_count() or 1), 4)
    return {**told, "seen": seen, "with_slow_ones": await slow_ones(server, session, args)}


def main() -> int:
    if sys.argv[1:2] == ["--look-on"]:
        port, session, num_viewers, num_slow = sys.argv[2:]
        asyncio.run(look_on(int(port), session, num_viewers=int(num_viewers), num_slow=int(num_slow)))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--servers", default="daphne,uvicorn")
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--window", type=float, default=5.0, help="seconds between two readings")
    parser.add_argument("--max-tokens", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = {}
    for name in args.servers.split(","):
        with tempfile.TemporaryDirectory(prefix="skippy-bench-") as folder:
            home = Path(folder)
            sizes = Sizes(args.threads, args.streams, args.streams * (args.max_tokens + 200))
            command = ("benchmarks/measured_server.py", "serve")
            server = start_ours(args.model.resolve(), home, sizes, server=name, command=command)
            try:
                results[name] = asyncio.run(measure(server, home, args))
            finally:
                server.stop()
        show(name, results[name])
    if args.json:
        write_results(
            args.json, {"viewers": args.viewers, "streams": args.streams, "window_s": args.window, **results}
        )
    return 0


def show(name: str, found: dict[str, Any]) -> None:
    for key, value in found.items():
        told = {what: value[what] for what in ("nobody", "viewers", "ratio")} if key in NUMBERS else value
        if key != "seen":
            print(f"{name}: {key:28} {told}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
