"""Any interleaving of completion, error, denial, disconnect and drain ends each request exactly once, as
policies see it."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from hooks.contracts.actions import CallWebhook, Deny, Tag
from hooks.contracts.decisions import HookDenied
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall
from hooks.exchange import RequestExchange
from tests.hook_parts import CALLER, Observed, ScriptedWebhooks, chat, desk_of, policy

KINDS = ("success", "stream_completed", "error", "denied", "cancelled")


class Request:
    """One request as those run it who generate: a task that asks, and concludes when it comes out."""

    def __init__(self, number: int, exchange: RequestExchange) -> None:
        self.request_id = str(number)
        self.exchange: RequestExchange | None = exchange
        self.step = asyncio.Event()
        self.outcome = TerminalOutcome("stream_completed", 200)
        self.task: asyncio.Task[None] | None = None

    async def run(self, text: str) -> None:
        exchange = self.exchange
        assert exchange is not None
        try:
            await exchange.before(chat(text))
            await self.step.wait()
            await exchange.after_prefill(FirstTokenSignals(1.0, 1.0), choice=0)
            exchange.conclude(self.outcome)
        except HookDenied as denied:
            exchange.conclude(TerminalOutcome("denied", denied.status, message=denied.message))
        finally:
            exchange.conclude(TerminalOutcome("cancelled", 499))


class Endings(RuleBasedStateMachine):
    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.gate = asyncio.Event()
        self.webhooks = ScriptedWebhooks({1: self._answer, 2: self._answer})
        self.observer = Observed()
        self.num_opened = 0
        self.opened: set[str] = set()
        self.desk = desk_of(
            policy(HookPoint.BEFORE, Deny("no"), condition="text.input == 'bad'"),
            policy(HookPoint.BEFORE, CallWebhook(1), condition="text.input == 'slow'", deadline_s=30.0),
            policy(HookPoint.AFTER_PREFILL, Tag("asked")),
            policy(HookPoint.TERMINAL, CallWebhook(2), Tag("ended"), deadline_s=30.0),
            webhooks=self.webhooks,
            observer=self.observer,
        )

    async def _answer(self, call: WebhookCall) -> WebhookAnswer:
        if call.point is HookPoint.BEFORE:
            await self.gate.wait()
        return WebhookAnswer()

    def _turn(self, num: int = 3) -> None:
        async def turn() -> None:
            for _ in range(num):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    @rule(target=requests, text=st.sampled_from(["good", "bad", "slow"]))
    def arrives(self, text: str) -> Request:
        async def begin() -> Request:
            exchange = self.desk.open(
                CALLER,
                model="m",
                endpoint="chat.completions",
                opts_in=False,
                request_id=str(self.num_opened),
            )
            assert exchange is not None
            request = Request(self.num_opened, exchange)
            request.task = asyncio.create_task(request.run(text))
            return request

        request = self.loop.run_until_complete(begin())
        self.opened.add(request.request_id)
        self.num_opened += 1
        return request

    @rule(num=st.integers(0, 5))
    def time_passes(self, num: int) -> None:
        self._turn(num)

    @rule()
    def webhooks_answer(self) -> None:
        self.gate.set()

    @rule(request=requests, kind=st.sampled_from(KINDS))
    def completes(self, request: Request, kind: str) -> None:
        request.outcome = TerminalOutcome(kind, 200)
        request.step.set()

    @rule(request=requests)
    def disconnects(self, request: Request) -> None:
        if request.task is not None:
            request.task.cancel()

    @rule(request=requests, kind=st.sampled_from(KINDS))
    def is_concluded_by_somebody_else(self, request: Request, kind: str) -> None:
        async def conclude() -> None:
            if request.exchange is not None:
                request.exchange.conclude(TerminalOutcome(kind, 200))

        self.loop.run_until_complete(conclude())

    @rule(request=consumes(requests))
    def is_dropped(self, request: Request) -> None:
        if request.task is not None:
            request.task.cancel()
        self._turn()
        request.task = request.exchange = None

    @rule()
    def drains(self) -> None:
        assert self.loop.run_until_complete(self.desk.drain(10.0)) == 0

    @invariant()
    def nobody_ended_twice(self) -> None:
        ended = Counter(call.request_id for call in self.webhooks.calls if call.outcome is not None)

        assert not ended or max(ended.values()) == 1
        assert set(ended) <= self.opened

    def teardown(self) -> None:
        try:
            assert self.loop.run_until_complete(self.desk.drain(10.0)) == 0
            self._turn()
            ended = Counter(call.request_id for call in self.webhooks.calls if call.outcome is not None)
            assert ended == Counter(self.opened)
            assert Counter(request_id for request_id, _, _ in self.observer.terminal) == Counter(self.opened)
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self._turn(5)
            self.loop.close()


Endings.TestCase.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
TestEndings = Endings.TestCase
