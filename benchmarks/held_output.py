"""What does it cost a stream that its text is held back: microseconds, and characters of delay?

An answer of 32,000 characters, four a token, goes through the gate of one choice, with policies at the output
that mask words, addresses and card numbers. For each size of the window: microseconds a token in which nobody
is asked, microseconds for each time that they are, how often that is, how many tokens there are before the
first text, in how large pieces it then comes and, at `--rate` tokens a second, what that is in seconds.

    .venv/bin/python benchmarks/held_output.py [--policies 1,20] [--held 16,64,128] [--rate 40] [--write]

--write puts the result beside this file.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from servers import write_results  # noqa: E402

from hooks.contracts.actions import MaskKind, MaskText, TextTarget  # noqa: E402
from hooks.contracts.points import HookPoint  # noqa: E402
from hooks.contracts.view import RequestView  # noqa: E402
from inference.domain.message_deltas import AnswerPart, ContentDelta  # noqa: E402
from inference.hooking.asking import PolicyAsking  # noqa: E402
from inference.hooking.output_gate import OutputGate  # noqa: E402
from tests.hook_parts import exchange_of, policy  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "held_output.json"
TOKEN_CHARS, NUM_TOKENS, NUM_ROUNDS = 4, 8000, 5
TEXT = "The quick brown fox jumps over the lazy dog, and then does it again. "
TARGETS = (TextTarget.CONTENT, TextTarget.REASONING, TextTarget.ARGUMENTS)


def policies(number: int, held_chars: int) -> list[Any]:
    return [
        policy(
            HookPoint.OUTPUT,
            MaskText(TARGETS, kinds=(MaskKind.EMAIL, MaskKind.CARD_NUMBER))
            if place == 0
            else MaskText(TARGETS, words=(f"forbidden{place}", f"secret {place}")),
            held_chars=held_chars,
        )
        for place in range(number)
    ]


async def measured(number: int, held_chars: int) -> dict[str, Any]:
    text = TEXT * (NUM_TOKENS * TOKEN_CHARS // len(TEXT) + 1)
    parts = [
        AnswerPart((ContentDelta(text[place : place + TOKEN_CHARS]),))
        for place in range(0, NUM_TOKENS * TOKEN_CHARS, TOKEN_CHARS)
    ]
    quiet: list[float] = []
    asked: list[float] = []
    first = 0
    pieces: list[int] = []
    for _ in range(NUM_ROUNDS):
        exchange = exchange_of(*policies(number, held_chars))
        await exchange.before(RequestView("chat.completions", "small"))
        asking = PolicyAsking(exchange, request_id="r", note=lambda phase: None)
        gate = OutputGate(exchange, asking, choice=0, is_stream=True)
        pieces = []
        for place, part in enumerate(parts):
            began_ts = time.perf_counter()
            released = await gate.feed(part)
            elapsed_us = (time.perf_counter() - began_ts) * 1e6
            if released:
                asked.append(elapsed_us)
                first = first if pieces else place + 1
                pieces.append(sum([len(one.text) for got in released for one in got.deltas]))  # type: ignore[union-attr]
            else:
                quiet.append(elapsed_us)
        await gate.finish()
    return {
        "num_policies": number,
        "held_chars": held_chars,
        "token_us": round(statistics.median(quiet), 2),
        "asking_us": round(statistics.median(asked), 1),
        "asking_p99_us": round(statistics.quantiles(asked, n=100)[98], 1),
        "tokens_for_each_asking": round(NUM_TOKENS / len(pieces), 1),
        "tokens_before_the_first_text": first,
        "piece_chars": round(statistics.median(pieces), 1),
    }


async def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--policies", default="1,20")
    arguments.add_argument("--held", default="16,64,128,512,4096")
    arguments.add_argument("--rate", type=float, default=40.0)
    arguments.add_argument("--write", action="store_true")
    chosen = arguments.parse_args()
    rows: list[dict[str, Any]] = []
    for number in map(int, chosen.policies.split(",")):
        for held_chars in map(int, chosen.held.split(",")):
            row = await measured(number, held_chars)
            row["first_text_s"] = round(row["tokens_before_the_first_text"] / chosen.rate, 2)
            row["us_a_token_in_all"] = round(
                row["token_us"] + row["asking_us"] / row["tokens_for_each_asking"], 2
            )
            rows.append(row)
            print(row)
    if chosen.write:
        write_results(RESULTS, {"rate": chosen.rate, "rows": rows})


if __name__ == "__main__":
    asyncio.run(main())
