#!/usr/bin/env python3
"""What policies cost that do not match: microseconds for each firing of a point, with 20 policies there.

    .venv/bin/python benchmarks/hooks.py [--policies 20] [--rounds 400] [--json OUT]

For each point, and for texts of 2 and of 64 KiB: the median and the 99th percentile, of the thread's own CPU
time, which is what a firing keeps from everybody else on the event loop. A request's texts are folded once,
in its first firing: that is part of BEFORE and of TERMINAL here. The conditions read request, principal,
texts in both forms and signals, each its own; none has a webhook. "open" is what each request pays for the
choice of its policies, "no policy" what one pays that none concerns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hooks.contracts.actions import Tag
from hooks.contracts.decisions import Decision, Firing
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import Policy, PolicyMode, PolicyScope
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import HookCaller, MessageView, OutputText, RequestView, TextPart
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall
from hooks.exchange import PolicyDesk, PolicySet, RequestExchange

TARGET_US = 300
CALLER = HookCaller(user_id=1, username="ada", key_id=2, key_name="k", team_id=3, team_name="research")
ANYWHERE = (
    "request.max_tokens > 100000",
    'principal.team == "interns" && request.n > 1',
    'text.folded.contains("pipe bomb {}")',
    'has_word(text.input, "Nerve agent {}")',
    'text.last_user.matches("(?i)card[ -]number {}")',
    'request.tools.exists(name, name == "shell-{}")',
    '"project" in request.metadata && request.metadata["project"] == "p{}"',
    'request.endpoint == "responses" && request.temperature > 1.5',
)
OWN: Mapping[HookPoint, tuple[str, ...]] = {
    HookPoint.AFTER_PREFILL: ("signals.entropy > 9.0", "signals.margin < 0.0"),
    HookPoint.MID_GENERATION: ("signals.num_repetitions > 99", "signals.mean_entropy > 9.0"),
    HookPoint.OUTPUT: ('output.folded.contains("forbidden {}")', 'has_word(output.content, "Secret {}")'),
    HookPoint.TERMINAL: ('outcome.kind == "no kind {}"',),
}
SENTENCE = "The quick brown fox jumps over the lazy dog, and then does it again. "


class NoWebhooks:
    async def call(self, call: WebhookCall, *, timeout_s: float) -> WebhookAnswer:
        raise AssertionError(call, timeout_s)


class Nobody:
    def firing_noted(self, firing: Firing) -> None:
        pass

    def terminal_decided(
        self, request_id: str, decisions: Sequence[Decision], tags: Mapping[str, str]
    ) -> None:
        raise AssertionError(decisions)


def policies_at(point: HookPoint, num: int) -> list[Policy]:
    conditions = (*OWN.get(point, ()), *ANYWHERE)
    return [
        Policy(
            policy_id=number,
            name=f"policy {number}",
            point=point,
            actions=(Tag("matched"),),
            mode=PolicyMode.ENFORCE,
            condition=conditions[number % len(conditions)].replace("{}", str(number)),
        )
        for number in range(num)
    ]


def view_of(num_chars: int) -> RequestView:
    text = (SENTENCE * (num_chars // len(SENTENCE) + 1))[:num_chars]
    return RequestView(
        endpoint="chat.completions",
        model="small",
        messages=(
            MessageView("system", (TextPart("Be brief."),)),
            MessageView("user", (TextPart(text[: num_chars // 2]),)),
            MessageView("assistant", (TextPart("Yes."),)),
            MessageView("user", (TextPart(text[num_chars // 2 :]),)),
        ),
        parameters={"max_tokens": 200, "temperature": 0.7},
        tool_names=("search", "weather"),
        fields=frozenset({"model", "messages", "max_tokens", "temperature", "tools"}),
    )


async def ended(desk: PolicyDesk, exchange: RequestExchange) -> None:
    exchange.conclude(TerminalOutcome("success", 200, texts=(SENTENCE,)))
    await desk.drain(10.0)


def asked(
    point: HookPoint, desk: PolicyDesk, exchange: RequestExchange, view: RequestView
) -> Callable[[], Awaitable[object]]:
    window = WindowSignals(64, 16, 1.0, 2.0, 1.0, 0.5, 0, 3)
    output = OutputText(choice=0, content=SENTENCE * 3, is_last=False)
    ways: Mapping[HookPoint, Callable[[], Awaitable[object]]] = {
        HookPoint.BEFORE: lambda: exchange.before(view),
        HookPoint.EFFECTIVE: lambda: exchange.before(view),
        HookPoint.AFTER_PREFILL: lambda: exchange.after_prefill(FirstTokenSignals(1.0, 2.0), choice=0),
        HookPoint.MID_GENERATION: lambda: exchange.mid_generation(window, choice=0),
        HookPoint.OUTPUT: lambda: exchange.before_output(output),
        HookPoint.TERMINAL: lambda: ended(desk, exchange),
    }
    return ways[point]


def summary(times_us: list[float]) -> dict[str, float]:
    return {
        "median_us": round(statistics.median(times_us), 1),
        "p99_us": round(statistics.quantiles(times_us, n=100)[-1], 1),
    }


async def measure(point: HookPoint, num: int, num_chars: int, rounds: int) -> dict[str, float]:
    desk = PolicyDesk(
        webhooks=NoWebhooks(), observer=Nobody(), policies=PolicySet.of(policies_at(point, num))
    )
    view = view_of(num_chars)
    times = []
    for _ in range(rounds):
        exchange = opened(desk)
        assert exchange is not None
        if point is not HookPoint.BEFORE:
            await exchange.before(view)
        ask = asked(point, desk, exchange, view)
        if point not in (HookPoint.BEFORE, HookPoint.TERMINAL):
            await ask()  # texts are folded when a request's first condition reads them
        begin = time.thread_time()
        await ask()
        times.append(1e6 * (time.thread_time() - begin))
        assert exchange.tags == {}
    return summary(times)


def opened(desk: PolicyDesk) -> RequestExchange | None:
    return desk.open(CALLER, model="small", endpoint="chat.completions", opts_in=False, request_id="r")


def measure_opening(num: int, rounds: int, *, concerns: bool) -> dict[str, float]:
    scope = PolicyScope() if concerns else PolicyScope(team_ids=frozenset({99}))
    policies = [
        Policy(
            policy_id=number,
            name=f"policy {number}",
            point=HookPoint.BEFORE,
            actions=(Tag("matched"),),
            mode=PolicyMode.ENFORCE,
            scope=scope,
        )
        for number in range(num)
    ]
    desk = PolicyDesk(webhooks=NoWebhooks(), observer=Nobody(), policies=PolicySet.of(policies))
    times = []
    for _ in range(rounds):
        begin = time.thread_time()
        exchange = opened(desk)
        times.append(1e6 * (time.thread_time() - begin))
        assert (exchange is not None) is concerns
    return summary(times)


async def measured(num: int, rounds: int) -> dict[str, object]:
    return {
        "policies": num,
        "target_us": TARGET_US,
        "open": measure_opening(num, rounds, concerns=True),
        "no policy": measure_opening(num, rounds, concerns=False),
        "firings": {
            f"{num_chars // 1024} KiB": {
                point.value: await measure(point, num, num_chars, rounds) for point in HookPoint
            }
            for num_chars in (2048, 65_536)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policies", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = asyncio.run(measured(args.policies, args.rounds))
    text = json.dumps(result, indent=2)
    print(text)
    if args.json is not None:
        args.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
