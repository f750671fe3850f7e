"""Policies, views, webhooks and observers for tests of hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from hooks.contracts.actions import Action
from hooks.contracts.decisions import Decision, Firing
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.signals import WindowSignals
from hooks.contracts.view import HookCaller, MessageView, RequestView, TextPart
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall, WebhookFailed
from hooks.exchange import PolicyDesk, PolicySet, RequestExchange

CALLER = HookCaller(user_id=1, username="ada", key_id=2, key_name="laptop", team_id=3, team_name="research")
_ids = count(1)


def policy(point: HookPoint, *actions: Action, **members: object) -> Policy:
    """One that is enforced; its id is a new one, so that equal orders keep the order of their making."""
    number = next(_ids)
    made = Policy(
        policy_id=number, name=f"policy-{number}", point=point, actions=actions, mode=PolicyMode.ENFORCE
    )
    return replace(made, **members)  # type: ignore[arg-type]


def said(text: str, role: str = "user") -> MessageView:
    return MessageView(role, (TextPart(text),))


def chat(*messages: MessageView | str, **members: object) -> RequestView:
    turns = tuple(said(one) if isinstance(one, str) else one for one in messages)
    view = RequestView(endpoint="chat.completions", model="small", messages=turns)
    return replace(view, **members)  # type: ignore[arg-type]


def window(**members: object) -> WindowSignals:
    whole = WindowSignals(
        num_decoded=20,
        num_tokens=16,
        mean_entropy=1.0,
        max_entropy=2.0,
        mean_margin=1.0,
        min_margin=0.5,
        num_high_entropy=0,
        num_repetitions=3,
    )
    return replace(whole, **members)  # type: ignore[arg-type]


class ScriptedWebhooks:
    """Implements WebhookCaller. `answers` by webhook id: what is answered, what is raised, or what is
    awaited. Counts what is in flight."""

    def __init__(self, answers: Mapping[int, object] | None = None) -> None:
        self.answers = dict(answers or {})
        self.calls: list[WebhookCall] = []
        self.num_in_flight = 0
        self.num_cancelled = 0

    async def call(self, call: WebhookCall, *, timeout_s: float) -> WebhookAnswer:
        self.calls.append(call)
        self.num_in_flight += 1
        try:
            answer = self.answers.get(call.webhook_id, WebhookFailed("unknown webhook"))
            if isinstance(answer, Callable):  # type: ignore[arg-type]
                answer = await answer(call)  # type: ignore[operator]
            if isinstance(answer, BaseException):
                raise answer
            return answer  # type: ignore[return-value]
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        finally:
            self.num_in_flight -= 1


class Observed:
    """Implements HookObserver."""

    def __init__(self) -> None:
        self.firings: list[Firing] = []
        self.terminal: list[tuple[str, Sequence[Decision], Mapping[str, str]]] = []

    def firing_noted(self, firing: Firing) -> None:
        self.firings.append(firing)

    def terminal_decided(
        self, request_id: str, decisions: Sequence[Decision], tags: Mapping[str, str]
    ) -> None:
        self.terminal.append((request_id, decisions, tags))


def desk_of(
    *policies: Policy, webhooks: ScriptedWebhooks | None = None, observer: Observed | None = None
) -> PolicyDesk:
    return PolicyDesk(
        webhooks=webhooks or ScriptedWebhooks(),
        observer=observer or Observed(),
        policies=PolicySet.of(policies),
    )


def exchange_of(
    *policies: Policy,
    webhooks: ScriptedWebhooks | None = None,
    observer: Observed | None = None,
    opts_in: bool = False,
) -> RequestExchange:
    """An exchange that these concern."""
    desk = desk_of(*policies, webhooks=webhooks, observer=observer)
    exchange = desk.open(
        CALLER, model="small", endpoint="chat.completions", opts_in=opts_in, request_id="req-1"
    )
    assert exchange is not None
    return exchange
