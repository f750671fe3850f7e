#!/usr/bin/env python3
"""Scores of a ranking model beside llama-server's: are they the same?

    .venv/bin/python benchmarks/rerank.py RANKER.gguf --peer-python PEER/bin/python [--json OUT]

Both servers have the same file and get the same queries and documents at /v1/rerank. Exit code 1 where a
score differs by more than 1e-3 of the widest distance between two.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from servers import Server, Sizes, start_llama_server, start_ours, write_results  # noqa: E402

QUERIES = ("the sea", "hello world and the sun", "Grüße, 你好", "a")
DOCUMENTS = (
    "the sea and the stone",
    "hello",
    "rain and sun and rain",
    "x",
    "The quick brown fox",
    "naïve café",
    "the sea " * 20,
)
TOLERANCE = 1e-3


def ask(server: Server, query: str) -> list[float]:
    """The score of each document, in their order."""
    request = Request(
        f"http://127.0.0.1:{server.port}/v1/rerank",
        json.dumps({"model": server.model, "query": query, "documents": DOCUMENTS}).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {server.key}"},
    )
    with urlopen(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    scores = {int(one["index"]): float(one["relevance_score"]) for one in found["results"]}
    return [scores[index] for index in range(len(DOCUMENTS))]


def compare(ours: Server, peer: Server) -> dict[str, Any]:
    pairs = [pair for query in QUERIES for pair in zip(ask(ours, query), ask(peer, query), strict=True)]
    spread = max(score for _, score in pairs) - min(score for _, score in pairs)
    return {
        "num_scores": len(pairs),
        "spread": spread,
        "worst_difference": max(abs(own - other) for own, other in pairs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer-python", required=True, help="python with xllamacpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sizes = Sizes(threads=args.threads, lanes=args.lanes, context=args.context)
    model = args.model.resolve()
    running: list[Server] = []
    with tempfile.TemporaryDirectory() as home:
        try:
            running.append(start_ours(model, Path(home), sizes, server="uvicorn"))
            running.append(start_llama_server(model, args.peer_python, sizes, pooling="rank"))
            found = compare(running[0], running[1])
        finally:
            for server in running:
                server.stop()
    print(json.dumps(found, indent=1))
    if args.json:
        write_results(args.json, found)
    return 1 if found["worst_difference"] > TOLERANCE * found["spread"] else 0


if __name__ == "__main__":
    sys.exit(main())
