"""One request's way through its points."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hooks.applying import output_draft
from hooks.conditions import Moment
from hooks.contracts.decisions import Decision, GenerationVerdict, OutputVerdict
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import PolicyMode
from hooks.contracts.signals import FirstTokenSignals, WindowRule, WindowSignals
from hooks.contracts.view import OutputText, RequestView
from hooks.exchange.asking import Asking
from hooks.exchange.capsules import Capsule
from hooks.exchange.draft import Draft
from hooks.exchange.policy_set import CompiledPolicy, window_rules
from hooks.guard import CANCELLED, TerminalGuard, TerminalTasks

_NOTHING = GenerationVerdict()
_NO_CHANGE = OutputVerdict()


class RequestExchange:
    """Implements HookExchange. An exchange that everybody has dropped is concluded as cancelled."""

    def __init__(self, asking: Asking, tasks: TerminalTasks) -> None:
        self._asking = asking
        self._rules = window_rules(asking.groups.get(HookPoint.MID_GENERATION))
        self._capsule: Capsule | None = None
        outputs = asking.groups.get(HookPoint.OUTPUT)
        looking = [one.policy for one in outputs.policies] if outputs else []
        holding = [policy for policy in looking if policy.mode is PolicyMode.ENFORCE]
        self._seen_chars = max([policy.held_chars for policy in looking], default=0)
        self._held_chars = max([policy.held_chars for policy in holding], default=0)
        self._only_observes_output = bool(looking) and not holding
        ending = _Ending(asking) if HookPoint.TERMINAL in asking.groups else None
        self.guard = TerminalGuard(None if ending is None else ending.fire, tasks)
        weakref.finalize(self, self.guard.conclude, CANCELLED).atexit = False

    def __repr__(self) -> str:
        return f"<RequestExchange {self.guard!r}, {self._asking.log!r}>"

    def wants(self, point: HookPoint) -> bool:
        return point in self._asking.groups

    @property
    def window_rules(self) -> Sequence[WindowRule]:
        return tuple(self._rules)

    @property
    def held_chars(self) -> int:
        return self._held_chars

    @property
    def seen_chars(self) -> int:
        return self._seen_chars

    @property
    def only_observes_output(self) -> bool:
        return self._only_observes_output

    async def before(self, view: RequestView) -> RequestView:
        asking = self._asking
        asking.request = view
        if HookPoint.BEFORE in asking.groups:
            draft = Draft(point=HookPoint.BEFORE, request=view)
            draft, _ = await asking.settle(asking.moment(HookPoint.BEFORE), draft)
            asking.request = draft.request
            self._capsule = draft.capsule
        if HookPoint.EFFECTIVE in asking.groups:
            draft = Draft(point=HookPoint.EFFECTIVE, request=asking.request)
            await asking.settle(asking.moment(HookPoint.EFFECTIVE), draft)
        return asking.request

    async def after_prefill(self, signals: FirstTokenSignals, *, choice: int) -> GenerationVerdict:
        if HookPoint.AFTER_PREFILL not in self._asking.groups:
            return _NOTHING
        moment = self._asking.moment(HookPoint.AFTER_PREFILL)
        return await self._verdict(replace(moment, first_token=signals, choice=choice))

    async def mid_generation(self, signals: WindowSignals, *, choice: int) -> GenerationVerdict:
        """Asks those whose rule has fired."""
        group = self._asking.groups.get(HookPoint.MID_GENERATION)
        if group is None:
            return _NOTHING
        fired = frozenset(signals.rules)
        policies = [one for one in group.policies if self._rules[one.policy.window] in fired]
        moment = self._asking.moment(HookPoint.MID_GENERATION)
        return await self._verdict(replace(moment, window=signals, choice=choice), policies)

    async def before_output(self, output: OutputText) -> OutputVerdict:
        asking = self._asking
        if HookPoint.OUTPUT not in asking.groups:
            return _NO_CHANGE
        moment = replace(asking.moment(HookPoint.OUTPUT), output=output, choice=output.choice)
        draft = Draft(point=HookPoint.OUTPUT, request=asking.request, output=output_draft(output))
        draft, _ = await asking.settle(moment, draft)
        self._capsule = draft.capsule or self._capsule
        assert draft.output is not None
        return OutputVerdict(draft.output.edits, draft.stop)

    def note_injection(self, place: int, *, num_injected: int, num_discarded: int, refusal: str = "") -> None:
        self._asking.log.note_injection(
            place, num_injected=num_injected, num_discarded=num_discarded, refusal=refusal
        )

    @property
    def tags(self) -> Mapping[str, str]:
        return self._asking.log.tags

    @property
    def capsule(self) -> tuple[str, str | None] | None:
        return self._capsule

    @property
    def decisions(self) -> Sequence[Decision]:
        return self._asking.log.decisions

    def conclude(self, outcome: TerminalOutcome) -> None:
        self.guard.conclude(outcome)

    async def _verdict(
        self, moment: Moment, policies: Sequence[CompiledPolicy] | None = None
    ) -> GenerationVerdict:
        draft = Draft(point=moment.point, request=moment.request)
        draft, places = await self._asking.settle(moment, draft, policies)
        if not draft.injections and draft.stop is None:
            return _NOTHING
        return GenerationVerdict(draft.injections, draft.stop, places)


class _Ending:
    """What the guard fires. It does not know the exchange, which would never be dropped otherwise."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def fire(self, outcome: TerminalOutcome) -> None:
        asking = self._asking
        moment = replace(asking.moment(HookPoint.TERMINAL), outcome=outcome)
        num_before = len(asking.log.decisions)
        draft, _ = await asking.settle(moment, Draft(point=HookPoint.TERMINAL, request=asking.request))
        decisions = asking.log.decisions[num_before:]
        if decisions:
            asking.observer.terminal_decided(asking.request_id, decisions, dict(draft.tags))
