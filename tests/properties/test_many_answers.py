"""Several answers to one request under anything that can happen to each of them, in any order.

However choices start, speak, end, fail, are refused or are left: the request has one record and one
ending, every choice that was submitted is over, and what the client got is in order for each choice.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.contracts import KeyLookup, KeyState
from inference.domain.errors import GenerationFailed, ServerOverloaded
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from inference.streaming.sessions import SessionStatistics
from tests.asgi import Exchange
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started

INDEXES = st.integers(0, 3)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["start", "say", "say", "finish", "finish", "fail", "leave", "turn"]), INDEXES),
    max_size=25,
)
TURN = 12


class Played:
    """A choice as the engine sees it: nothing happens after its ending, and nothing before its start."""

    def __init__(self, handle: ScriptedHandle) -> None:
        self.handle = handle
        self.is_started = False
        self.is_over = False
        self.said = ""

    def start(self) -> None:
        if not self.is_started and not self.is_over:
            self.is_started = True
            self.handle.start()

    def say(self) -> None:
        if self.is_started and not self.is_over:
            self.said += "x"
            self.handle.say("x")

    def finish(self) -> None:
        if self.is_started and not self.is_over:
            self.is_over = True
            self.handle.finish(FinishReason.LENGTH)

    def fail(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.handle.fail(GenerationFailed("broken"))


async def play(num: int, is_stream: bool, num_taken: int | None, actions: list[tuple[str, int]]) -> None:
    site = Site(session_header="x-agent-session")
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, has_session_trust=True))
    await started(site)
    choices: list[Played] = []

    def submitted(handle: ScriptedHandle) -> None:
        choices.append(Played(handle))
        if len(choices) == num_taken:
            site.engine.refusal = ServerOverloaded("full")

    site.engine.play = submitted
    messages = [{"role": "user", "content": "hi"}]
    body = json.dumps({"model": "scripted", "messages": messages, "n": num, "stream": is_stream})
    exchange = site.open("/v1/chat/completions", body.encode(), **{"x-agent-session": "agent"})
    is_refused = num_taken is not None and num_taken < num
    async with asyncio.timeout(10):
        while not exchange.task.done() and len(choices) < (num if not is_refused else num + 1):
            await asyncio.sleep(0.0005)
        has_left = False
        for action, index in actions:
            if action == "turn":
                for _ in range(TURN):
                    await asyncio.sleep(0)
            elif action == "leave":
                has_left = True
                exchange.disconnect()
            elif index < len(choices):
                getattr(choices[index], action)()
        for choice in choices:
            choice.start()
            choice.finish()
        await asyncio.wait([exchange.task])
    check(site, exchange, choices, num=num, is_refused=is_refused, has_left=has_left, is_stream=is_stream)
    await site.runtime.stop()


def check(
    site: Site,
    exchange: Exchange,
    choices: list[Played],
    *,
    num: int,
    is_refused: bool,
    has_left: bool,
    is_stream: bool,
) -> None:
    (record,) = site.records
    assert site.runtime.sessions.statistics() == SessionStatistics()
    assert all(choice.handle.is_cancelled for choice in choices)
    if record.outcome is Outcome.COMPLETED:
        assert len(choices) == num
        assert record.usage is not None
        assert record.usage.completion_tokens == sum(len(choice.said) for choice in choices)
        assert all(len(choice.handle.completed) == 1 for choice in choices)
        assert not is_refused
    else:
        assert record.outcome in (Outcome.REJECTED, Outcome.BACKEND_ERROR, Outcome.CLIENT_DISCONNECT)
        assert has_left or record.outcome is not Outcome.CLIENT_DISCONNECT
    if exchange.is_complete and exchange.status == 200:
        if is_stream:
            check_stream(exchange.events(), choices, is_whole=record.outcome is Outcome.COMPLETED)
        else:
            found = exchange.json()["choices"]
            assert [choice["index"] for choice in found] == list(range(num))
            assert [choice["message"]["content"] for choice in found] == [one.said for one in choices]


def check_stream(events: list[Any], choices: list[Played], *, is_whole: bool) -> None:
    *chunks, done = events
    assert done == "[DONE]"
    texts: defaultdict[int, str] = defaultdict(str)
    ended: set[int] = set()
    for chunk in chunks:
        if "error" in chunk:
            assert chunk is chunks[-1]
            assert not is_whole
            continue
        (choice,) = chunk["choices"]
        assert choice["index"] not in ended
        texts[choice["index"]] += choice["delta"].get("content") or ""
        if choice["finish_reason"] is not None:
            ended.add(choice["index"])
    for index, choice in enumerate(choices):
        assert choice.said.startswith(texts[index])
        if is_whole:
            assert (texts[index], index in ended) == (choice.said, True)


@settings(max_examples=60, deadline=None)
@given(
    num=st.integers(2, 4), is_stream=st.booleans(), num_taken=st.none() | st.integers(1, 4), actions=ACTIONS
)
def test_one_ending_whatever_becomes_of_each_choice(
    num: int, is_stream: bool, num_taken: int | None, actions: list[tuple[str, int]]
) -> None:
    asyncio.run(play(num, is_stream, num_taken, actions))
