#!/usr/bin/env python3
"""Two models and embeddings under load, while a third model is loaded and unloaded again and again.

    model_swaps.py --model model.gguf [--swapped other.gguf] [--swaps 20] [--clients 2] [--json out.json]

Our server is started as an operator would start it, in a state folder of its own, and the models are set up
through its management API. Before and after the swaps the same load runs for as long without them.

Printed: the gaps between tokens that clients saw (median, 99th percentile, worst) with and without swaps, and
their ratios; how long a load and an unload took; errors; memory, threads and open files of the server after
each unload. Of that memory, what the prefix caches keep outside of cells is told apart: it grows with the
prompts that were asked, up to its limit (SKIPPY_HOST_CACHE_BYTES). Exit code 1 where there was an error, the
worst gap more than doubled, or the rest of the memory grew from the third swap to the last by more than the
same load adds without swaps, and noise (5 % of the model's file).
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import load
import servers

TEXTS = ["a short text to be embedded", "and another one, a little longer than the first"]
STATE_PATIENCE_S = 300.0
WARM_SWAPS = 3
NOISE_BYTES = 5e6
HOST_CACHE = "skippy_host_cache_bytes"


def manager_key(home: Path) -> str:
    command = [sys.executable, "manage.py", "api_key_create", "--user", "operator", "--name", "swaps"]
    done = subprocess.run(
        [*command, "--scope", "models", "--json"],
        cwd=servers.CHECKOUT,
        env={"PATH": os.environ["PATH"], "SKIPPY_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(done.stdout)["key"])


class Api:
    """JSON in, JSON out, with one key."""

    def __init__(self, port: int, key: str) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: dict | None = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data, self._headers, method=method)
        try:
            with urlopen(request, timeout=120) as answer:
                return json.loads(answer.read() or b"{}")
        except HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read()[:300]!r}") from None

    def add(self, model_id: str, source: Path, **fields: object) -> int:
        body = {"model_id": model_id, "source": str(source), **fields}
        return int(self.call("POST", "/api/models", body)["id"])

    def until(self, row_id: int, state: str) -> None:
        deadline_ts = time.monotonic() + STATE_PATIENCE_S
        while True:
            told = self.call("GET", f"/api/models/{row_id}/status")
            now = [one for one in told["status"] if one["revision"] == told["revision"]]
            if any(one["state"] == state for one in now):
                return
            if any(one["state"] == "failed" for one in now) or time.monotonic() > deadline_ts:
                raise RuntimeError(f"model {row_id} is not {state}: {told}")
            time.sleep(0.05)


def server_process(process_id: int) -> int:
    """The descendant with the most memory: it has the models."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = [], [process_id]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return max(found, key=rss_bytes)


def rss_bytes(process_id: int) -> int:
    """Without pages of files, such as weights that are mapped: those are the system's."""
    try:
        lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def host_cache_bytes(port: int) -> int:
    """KV state that all models keep in the machine's memory, by the server's own word."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{HOST_CACHE}{{")))


def held(process_id: int, port: int) -> dict:
    folder = Path(f"/proc/{process_id}")
    rss, cached = rss_bytes(process_id), host_cache_bytes(port)
    return {
        "rss_mb": round(rss / 1e6, 1),
        "host_cache_mb": round(cached / 1e6, 1),
        "rest_mb": round((rss - cached) / 1e6, 1),
        "threads": len(list((folder / "task").iterdir())),
        "files": len(list((folder / "fd").iterdir())),
    }


class SteadyLoad:
    """Streams of some models and embeddings, until it is stopped."""

    def __init__(self, server: servers.Server, models: list[str], *, clients: int, max_tokens: int) -> None:
        self._server = server
        self._models = models
        self._clients = clients
        self._max_tokens = max_tokens
        self.gaps: dict[str, list[float]] = {model: [] for model in models}
        self.errors: list[str] = []
        self.num_answers = 0
        self.num_embeddings = 0

    async def run(self, until_done: asyncio.Event) -> None:
        tasks = [
            self._stream(model, number, until_done)
            for model in self._models
            for number in range(self._clients)
        ]
        await asyncio.gather(*tasks, self._embed(until_done))

    async def _stream(self, model: str, number: int, until_done: asyncio.Event) -> None:
        seed = 1000 * number
        while not until_done.is_set():
            seed += 1
            body = {
                "model": model,
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": self._max_tokens,
                "ignore_eos": True,
                "seed": seed,
                "messages": [{"role": "user", "content": load.prompt(seed, 60, 0.0)}],
            }
            path = "/v1/chat/completions"
            answer = await load.stream("127.0.0.1", self._server.port, path, self._server.key, body, 600.0)
            self.gaps[model] += answer["gaps"]
            self.num_answers += 1
            if not answer["ok"]:
                self.errors.append(f"{model}: {answer['error']}")

    async def _embed(self, until_done: asyncio.Event) -> None:
        api = Api(self._server.port, self._server.key)
        while not until_done.is_set():
            try:
                body = {"model": self._models[0], "input": TEXTS}
                answer = await asyncio.to_thread(api.call, "POST", "/v1/embeddings", body)
                if len(answer["data"]) != len(TEXTS):
                    raise RuntimeError(f"embeddings: {answer}")
                self.num_embeddings += 1
            except (RuntimeError, OSError) as error:
                self.errors.append(str(error))
            await asyncio.sleep(0.5)


def summary(steady: SteadyLoad) -> dict:
    gaps = [gap for one in steady.gaps.values() for gap in one]
    return {
        "answers": steady.num_answers,
        "embeddings": steady.num_embeddings,
        "errors": steady.errors[:20],
        "gap_ms": {
            name: round(1000 * load.quantile(gaps, q), 2)
            for name, q in (("median", 0.5), ("p99", 0.99), ("worst", 1.0))
        },
    }


async def quiet(steady: SteadyLoad, seconds: float) -> dict:
    done = asyncio.Event()
    running = asyncio.create_task(steady.run(done))
    await asyncio.sleep(seconds)
    done.set()
    await running
    return summary(steady)


async def swapping(steady: SteadyLoad, api: Api, row_id: int, args: SimpleNamespace, process_id: int) -> dict:
    done = asyncio.Event()
    running = asyncio.create_task(steady.run(done))
    swaps = []
    begin = time.monotonic()
    body = {
        "model": "swapped",
        "messages": [{"role": "user", "content": "Say hi"}],
        "max_tokens": 4,
    }
    user = Api(args.port, args.key)
    try:
        for _ in range(args.swaps):
            began = time.monotonic()
            await asyncio.to_thread(api.call, "POST", f"/api/models/{row_id}/load")
            await asyncio.to_thread(api.until, row_id, "ready")
            loaded = time.monotonic()
            await asyncio.to_thread(user.call, "POST", "/v1/chat/completions", body)
            answered = time.monotonic()
            await asyncio.to_thread(api.call, "POST", f"/api/models/{row_id}/unload")
            await asyncio.to_thread(api.until, row_id, "unloaded")
            swaps.append(
                {
                    "load_s": round(loaded - began, 2),
                    "unload_s": round(time.monotonic() - answered, 2),
                    **held(process_id, args.port),
                }
            )
            print(f"  swap {len(swaps):2}: {swaps[-1]}", flush=True)
    except (RuntimeError, OSError) as error:
        steady.errors.append(f"swap {len(swaps) + 1}: {error}")
    done.set()
    await running
    return {**summary(steady), "seconds": round(time.monotonic() - begin, 1), "swaps": swaps}


async def measure(args: argparse.Namespace, server: servers.Server, home: Path) -> dict:
    api = Api(server.port, manager_key(home))
    engine = {"lanes": args.lanes, "context": args.context, "threads": args.threads}
    second = api.add("second", args.model, engine=engine)
    row_id = api.add("swapped", args.swapped, engine=engine, load_policy="by_hand")
    await asyncio.to_thread(api.until, second, "ready")
    process_id = server_process(server.process.pid)

    def steady() -> SteadyLoad:
        return SteadyLoad(server, [server.model, "second"], clients=args.clients, max_tokens=args.max_tokens)

    await quiet(steady(), 5.0)  # caches, branches of code, the embedding context
    found = {"machine": servers.machine(), "command": servers.shown_command()}
    found["before"] = await quiet(steady(), args.seconds)
    options = SimpleNamespace(swaps=args.swaps, port=server.port, key=server.key)
    found["swapping"] = await swapping(steady(), api, row_id, options, process_id)
    rest_mb = held(process_id, server.port)["rest_mb"]
    found["after"] = await quiet(steady(), found["swapping"]["seconds"])
    found["after"].update(held(process_id, server.port))
    found["after"]["growth_mb"] = round(found["after"]["rest_mb"] - rest_mb, 1)
    return found


def judge(found: dict, model_bytes: int) -> dict:
    """Ratios, and what of it is not as it should be."""
    swapping = found["swapping"]
    plain = {
        name: max(found[phase]["gap_ms"][name] for phase in ("before", "after"))
        for name in ("median", "p99", "worst")
    }
    ratios = {name: round(swapping["gap_ms"][name] / value, 2) for name, value in plain.items() if value}
    rest_mb = [swap["rest_mb"] for swap in swapping["swaps"]]
    growth_mb = round(rest_mb[-1] - rest_mb[min(WARM_SWAPS, len(rest_mb)) - 1], 1) if rest_mb else None
    faults = [error for phase in ("before", "swapping", "after") for error in found[phase]["errors"]]
    if ratios.get("worst", 0.0) > 2.0:
        faults.append(f"the worst gap was {ratios['worst']} times as long while models were swapped")
    # What the same load adds without swaps is none of theirs.
    own_mb = found["after"]["growth_mb"]
    if growth_mb is None or 1e6 * (growth_mb - max(0.0, own_mb)) > max(0.05 * model_bytes, NOISE_BYTES):
        faults.append(f"memory grew by {growth_mb} MB, and without swaps by {own_mb} MB")
    for name in ("threads", "files"):
        counts = [swap[name] for swap in swapping["swaps"]]
        # Connections come and go with the load: what is left behind is there after each of the last swaps.
        if counts and min(counts[-WARM_SWAPS:]) > max(counts[:WARM_SWAPS]):
            faults.append(f"{name} grew: {counts}")
    return {"gap_ratios": ratios, "growth_mb": growth_mb, "faults": faults}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="GGUF of the two models under load")
    parser.add_argument(
        "--swapped", type=Path, help="GGUF of the one that comes and goes (default: the same)"
    )
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--clients", type=int, default=2, help="streams of each model")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0, help="of the load before the swaps")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--server", default="daphne")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.model = args.model.absolute()
    args.swapped = (args.swapped or args.model).absolute()
    with tempfile.TemporaryDirectory(prefix="model-swaps-") as folder:
        home = Path(folder)
        sizes = servers.Sizes(threads=args.threads, lanes=args.lanes, context=args.context)
        server = servers.start_ours(args.model, home, sizes, server=args.server)
        try:
            found = asyncio.run(measure(args, server, home))
        finally:
            server.stop()
    found["judgement"] = judge(found, args.swapped.stat().st_size)
    for phase in ("before", "swapping", "after"):
        shown = {name: value for name, value in found[phase].items() if name != "swaps"}
        print(f"{phase:9} {shown}")
    print(f"judgement {found['judgement']}")
    if args.json:
        servers.write_results(args.json, found)
    return 1 if found["judgement"]["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
