#!/usr/bin/env python3
"""Load an OpenAI-compatible server with streamed chat requests and print what clients saw.

Plain asyncio sockets, so that the client costs little of a small machine's CPU.

    load.py --url http://127.0.0.1:8000 --key sk-... --model NAME --concurrency 1,4,16 \
            --requests 32 --prompt-words 200 --max-tokens 64 [--shared-prefix 0.5] [--json out.json]

One row per concurrency: requests ok/failed, wall seconds, output tokens per second (from the
server's own usage chunk, where it sends one), time to first token and inter-token latency (median,
p99), all in ms.
Prompts differ between requests, except for a leading part that --shared-prefix sets
(the share of the prompt that every request has in common).
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

WORDS = (
    "river stone cloud engine garden signal window copper forest lantern harbor meadow "
    "thunder velvet compass orchard marble canyon whisper ember falcon glacier island juniper "
    "kettle ladder mirror needle ocean pepper quarry ribbon saddle timber umbrella valley"
).split()


def prompt(seed: int, words: int, shared: float) -> str:
    """`words` words of text, the first `shared` share of them the same for every seed."""
    common, own = random.Random(1), random.Random(1000 + seed)
    head = int(words * shared)
    body = [common.choice(WORDS) for _ in range(head)] + [own.choice(WORDS) for _ in range(words - head)]
    return "Write a short story that uses these words: " + " ".join(body)


async def stream(host: str, port: int, path: str, key: str, body: dict, timeout: float) -> dict:
    """Send one streamed request; return its timings in seconds, counts and error."""
    payload = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nAccept: text/event-stream\r\nContent-Length: {len(payload)}\r\n"
        "Connection: close\r\n\r\n"
    )
    out = {"ok": False, "tokens": None, "gaps": [], "ttft": None, "total": None, "error": None, "text": ""}
    out["reason"] = None
    begin = time.perf_counter()
    writer = None
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port, limit=2**20)
            writer.write(head.encode() + payload)
            await writer.drain()
            status = (await reader.readline()).split()
            code = int(status[1]) if len(status) > 1 else 0
            while (line := await reader.readline()) not in (b"\r\n", b"\n", b""):
                pass
            last, done = None, False
            while line := await reader.readline():
                if not line.startswith(b"data:"):
                    if code != 200 and line.strip().startswith(b"{"):
                        out["error"] = f"{code} {line[:200]!r}"
                    continue
                data = line[5:].strip()
                now = time.perf_counter()
                if data == b"[DONE]":
                    done = True
                    break
                event = json.loads(data)
                if "error" in event:
                    out["error"] = json.dumps(event["error"])[:200]
                    break
                if event.get("usage"):
                    out["tokens"] = event["usage"]["completion_tokens"]
                for choice in event.get("choices", []):
                    out["reason"] = choice.get("finish_reason") or out["reason"]
                    delta = choice.get("delta", {})
                    text = delta.get("content") or delta.get("reasoning_content") or choice.get("text") or ""
                    if not text:
                        continue
                    out["text"] += text
                    if last is None:
                        out["ttft"] = now - begin
                    else:
                        out["gaps"].append(now - last)
                    last = now
            if out["tokens"] is None:
                # A server without a usage chunk: an answer that was cut has all it asked for.
                out["tokens"] = body["max_tokens"] if out["reason"] == "length" else 0
            out["ok"] = done and code == 200 and out["error"] is None
            if not out["ok"] and out["error"] is None:
                out["error"] = f"status {code}, done={done}"
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
        out["error"] = f"{type(error).__name__}: {error}"
    finally:
        if writer is not None:
            writer.close()
    out["total"] = time.perf_counter() - begin
    return out


def quantile(values: list, q: float) -> float:
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


async def level(args, host: str, port: int, concurrency: int, first_seed: int) -> dict:
    """Run args.requests requests, `concurrency` at a time; return one row."""
    seeds = iter(range(first_seed, first_seed + args.requests))
    results = []

    async def worker():
        for seed in seeds:
            body = {
                "model": args.model,
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": args.max_tokens,
                "temperature": args.temperature,
                "seed": seed,
                "messages": [
                    {"role": "user", "content": prompt(seed, args.prompt_words, args.shared_prefix)}
                ],
            }
            body.update(args.extra)
            results.append(await stream(host, port, args.path, args.key, body, args.timeout))

    begin = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    wall = time.perf_counter() - begin
    good = [r for r in results if r["ok"]]
    gaps = [gap for r in good for gap in r["gaps"]]
    ttft = [r["ttft"] for r in good if r["ttft"] is not None]
    return {
        "concurrency": concurrency,
        "ok": len(good),
        "failed": len(results) - len(good),
        "wall_s": round(wall, 3),
        "tokens": sum(r["tokens"] for r in good),
        "tok_per_s": round(sum(r["tokens"] for r in good) / wall, 2),
        "ttft_ms_p50": round(1e3 * quantile(ttft, 0.5), 1),
        "ttft_ms_p99": round(1e3 * quantile(ttft, 0.99), 1),
        "itl_ms_p50": round(1e3 * quantile(gaps, 0.5), 2),
        "itl_ms_p99": round(1e3 * quantile(gaps, 0.99), 2),
        "latency_s_p50": round(statistics.median([r["total"] for r in good]), 3) if good else None,
        "errors": sorted({r["error"] for r in results if r["error"]})[:3],
    }


async def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--path", default="/v1/chat/completions")
    parser.add_argument("--key", default="none")
    parser.add_argument("--model", default="default")
    parser.add_argument("--concurrency", default="1,4,16")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--prompt-words", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--shared-prefix", type=float, default=0.0)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument("--ignore-eos", action="store_true", help="send ignore_eos, where the server has it")
    parser.add_argument(
        "--seed-base", type=int, default=0, help="first prompt seed: another one avoids warm caches"
    )
    parser.add_argument("--json")
    args = parser.parse_args()
    args.extra = {"ignore_eos": True} if args.ignore_eos else {}
    parts = urlsplit(args.url)
    rows = []
    for number, concurrency in enumerate(int(c) for c in args.concurrency.split(",")):
        row = await level(
            args, parts.hostname, parts.port or 80, concurrency, args.seed_base + 10_000 * (number + 1)
        )
        rows.append(row)
        print(json.dumps(row), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))
    return 0 if all(row["failed"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
