"""Policies whose every word a test decides, and which remember what they were asked and told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hooks.contracts.actions import InjectText, StopReason
from hooks.contracts.decisions import Decision, DecisionResult, GenerationVerdict, OutputVerdict
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowRule, WindowSignals
from hooks.contracts.view import HookCaller, OutputText, RequestView

ALL_BUT_OUTPUT = tuple([point for point in HookPoint if point is not HookPoint.OUTPUT])
Verdicts = Callable[[int], GenerationVerdict]


class ScriptedExchange:
    """Implements HookExchange. `change` makes the effective view; `prefill` and `window` are asked with the
    choice's index, and may raise. While `gate` is not set, answers at the `gated` points wait."""

    def __init__(self, *, points: Sequence[HookPoint] = ALL_BUT_OUTPUT) -> None:
        self.points = frozenset(points)
        self.window_rules: Sequence[WindowRule] = (WindowRule(),)
        self.held_chars = self.seen_chars = 0
        self.only_observes_output = False
        self.change: Callable[[RequestView], RequestView] = lambda view: view
        self.prefill: Verdicts = lambda choice: GenerationVerdict()
        self.window: Verdicts = lambda choice: GenerationVerdict()
        self.gated = frozenset(HookPoint)
        self.gate = asyncio.Event()
        self.gate.set()
        self.num_waiting = 0
        self.views: list[RequestView] = []
        self.asked: list[tuple[int, FirstTokenSignals | WindowSignals]] = []
        self.outcomes: list[TerminalOutcome] = []
        self.tags: Mapping[str, str] = {}
        self.capsule: tuple[str, str | None] | None = None
        self.decisions: list[Decision] = []

    def wants(self, point: HookPoint) -> bool:
        return point in self.points

    async def before(self, view: RequestView) -> RequestView:
        self.views.append(view)
        await self._wait(HookPoint.BEFORE)
        return self.change(view)

    async def after_prefill(self, signals: FirstTokenSignals, *, choice: int) -> GenerationVerdict:
        self.asked.append((choice, signals))
        await self._wait(HookPoint.AFTER_PREFILL)
        return self.prefill(choice)

    async def mid_generation(self, signals: WindowSignals, *, choice: int) -> GenerationVerdict:
        self.asked.append((choice, signals))
        await self._wait(HookPoint.MID_GENERATION)
        return self.window(choice)

    async def before_output(self, output: OutputText) -> OutputVerdict:
        return OutputVerdict()

    def note_injection(self, place: int, *, num_injected: int, num_discarded: int, refusal: str = "") -> None:
        self.decisions[place] = replace(
            self.decisions[place],
            num_injected_tokens=num_injected,
            num_discarded_tokens=num_discarded,
            reason=refusal,
            result=DecisionResult.REFUSED if refusal else DecisionResult.APPLIED,
        )

    def conclude(self, outcome: TerminalOutcome) -> None:
        self.outcomes.append(outcome)

    # -- what tests have policies say -------------------------------------------------------------

    def decided(self, *actions: str, point: HookPoint = HookPoint.BEFORE, choice: int | None = None) -> int:
        """A decision for the record; its place."""
        self.decisions.append(Decision(5, "careful", point, actions, DecisionResult.APPLIED, choice=choice))
        return len(self.decisions) - 1

    def injecting(self, *texts: str, is_shown: bool = False, stop: StopReason | None = None) -> Verdicts:
        def verdict(choice: int) -> GenerationVerdict:
            places = [self.decided("inject_text", choice=choice) for _ in texts]
            injections = tuple([InjectText(text, is_shown) for text in texts])
            return GenerationVerdict(injections, stop, tuple(places))

        return verdict

    async def _wait(self, point: HookPoint) -> None:
        if point not in self.gated:
            return
        self.num_waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.num_waiting -= 1


class ScriptedDesk:
    """Implements HookDesk: opens `exchange`, or none, for whoever comes."""

    def __init__(self, exchange: ScriptedExchange | None = None) -> None:
        self.exchange = exchange
        self.opened: list[tuple[HookCaller, str, str, bool, str]] = []

    def open(
        self, caller: HookCaller, *, model: str, endpoint: str, opts_in: bool, request_id: str
    ) -> ScriptedExchange | None:
        self.opened.append((caller, model, endpoint, opts_in, request_id))
        return self.exchange

    async def drain(self, timeout_s: float) -> int:
        return 0
