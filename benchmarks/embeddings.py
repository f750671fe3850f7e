#!/usr/bin/env python3
"""Embeddings beside llama-server: are they the same, and how many texts a second?

    .venv/bin/python benchmarks/embeddings.py MODEL.gguf --peer-python PEER/bin/python [--json OUT]

Both servers have the same file, threads and requests of 64 short texts. They take turns, so that what else
the machine does hits both alike; what counts is the ratio of each turn. The peer refuses embeddings of a
model that names no pooling until one is set, and is set to the mean, which is what ours takes then.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from servers import Server, Sizes, start_llama_server, start_ours, write_results  # noqa: E402

NUM_TEXTS = 64
SUBJECTS = (
    "The ferry",
    "A neighbour",
    "My sister",
    "The old bridge",
    "Nobody here",
    "The river",
    "Rain",
    "A fox",
)
VERBS = ("crosses", "remembers", "fears", "paints", "carries", "forgets", "follows", "hides")
OBJECTS = ("the harbour", "two stones", "an empty street", "the light of March", "a green door", "the news")
ODD_TEXTS = (
    "a",
    "1 + 1 = 2",
    "Grüße aus Köln, naïve café, 你好，世界",
    "def f(x):\n    return x ** 2\n",
    "The quick brown fox jumps over the lazy dog. " * 12,
    "WHY IS EVERYTHING IN CAPITALS?",
)


def short_texts(seed: int) -> list[str]:
    """64 of them, none of which was asked before."""
    random = np.random.default_rng(seed)
    return [
        f"{random.choice(SUBJECTS)} {random.choice(VERBS)} {random.choice(OBJECTS)}, "
        f"{random.choice(VERBS)} {random.choice(OBJECTS)}, number {random.integers(1000)}."
        for _ in range(NUM_TEXTS)
    ]


def ask(server: Server, texts: list[str]) -> tuple[np.ndarray, float, int]:
    """Rows, seconds, and tokens, as OpenAI's client asks: base64."""
    body = {"model": server.model, "input": texts, "encoding_format": "base64"}
    request = Request(
        f"http://127.0.0.1:{server.port}/v1/embeddings",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {server.key}"},
    )
    began = time.monotonic()
    with urlopen(request, timeout=600) as answer:
        found: dict[str, Any] = json.load(answer)
    elapsed_s = time.monotonic() - began
    rows = [np.frombuffer(base64.b64decode(item["embedding"]), dtype="<f4") for item in found["data"]]
    return np.stack(rows), elapsed_s, int(found["usage"]["prompt_tokens"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer-python", required=True, help="python with xllamacpp")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = Sizes(threads=args.threads, lanes=args.lanes, context=8192)
    model = args.model.resolve()
    running: list[Server] = []
    with tempfile.TemporaryDirectory() as home:
        try:
            running.append(start_ours(model, Path(home), sizes, server="uvicorn"))
            running.append(start_llama_server(model, args.peer_python, sizes, pooling="mean"))
            found = compare(running[0], running[1], args.rounds)
        finally:
            for server in running:
                server.stop()
    print(json.dumps(found, indent=1))
    if args.json:
        write_results(args.json, found)


def compare(ours: Server, peer: Server, rounds: int) -> dict[str, Any]:
    same = [*ODD_TEXTS, *short_texts(1)[:10]]
    rows, _, num_tokens = ask(ours, same)
    others, _, num_peer_tokens = ask(peer, same)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    cosines = np.sum(rows * others, axis=1) / lengths
    ratios: list[float] = []
    rates: dict[str, list[float]] = {ours.name: [], peer.name: []}
    for turn in range(rounds):
        texts = short_texts(100 + turn)
        pair = (ours, peer) if turn % 2 else (peer, ours)
        for server in pair:
            _, elapsed_s, _ = ask(server, texts)
            rates[server.name].append(NUM_TEXTS / elapsed_s)
        ratios.append(rates[ours.name][-1] / rates[peer.name][-1])
        print(f"turn {turn}: ours ÷ llama-server {ratios[-1]:.2f}", flush=True)
    return {
        "num_texts": NUM_TEXTS,
        "worst_cosine": float(cosines.min()),
        "tokens": {ours.name: num_tokens, peer.name: num_peer_tokens},
        "texts_per_s": {name: statistics.median(found) for name, found in rates.items()},
        "ratio": {"median": statistics.median(ratios), "all": [round(ratio, 3) for ratio in ratios]},
    }


if __name__ == "__main__":
    main()
