"""The shipped examples, switched on, at the doors: rules, exchange, engine and wires together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from accounts.contracts import KeyLookup, KeyState
from hooks.contracts.actions import CallWebhook, Deny, InjectText
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, Policy, PolicyMode
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall, WebhookFailed
from hooks.examples.shipped import SHIPPED
from hooks.exchange import PolicyDesk, PolicySet
from inference.domain.outcomes import Outcome
from inference.domain.signals import TokenSignal
from inference.telemetry.policy_observer import PolicyObserver
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import KEY, PRINCIPAL, Site
from tests.unit.api.test_policies import (
    CHAT,
    COMPLETIONS,
    LOST,
    MESSAGES,
    RESPONSES,
    UNSURE,
    WIRES,
    Wire,
    prompt_of,
    saying,
    until,
)

Answer = Callable[[WebhookCall], WebhookAnswer]


class ScriptedWebhooks:
    def __init__(self, answer: Answer | None = None) -> None:
        self.calls: list[WebhookCall] = []
        self._answer = answer

    async def call(self, call: WebhookCall, *, timeout_s: float) -> WebhookAnswer:
        self.calls.append(call)
        if self._answer is None:
            raise WebhookFailed("away")
        return self._answer(call)


def shipped(name: str, **changes: Any) -> Policy:
    policy = next(one.policy for one in SHIPPED if one.policy.name == name)
    return replace(policy, **{"mode": PolicyMode.ENFORCE, **changes})


def with_policies(site: Site, *policies: Policy, webhooks: ScriptedWebhooks | None = None) -> PolicyDesk:
    desk = PolicyDesk(
        webhooks=webhooks or ScriptedWebhooks(),
        observer=PolicyObserver(site.metrics.policies, site),
        policies=PolicySet.of(policies),
    )
    site.runtime.hook_desk = desk
    return desk


def asking(wire: Wire, text: str, **fields: Any) -> bytes:
    place = {"completions": "prompt", "responses": "input"}.get(wire.endpoint)
    said: Any = text if place else [{"role": "user", "content": text}]
    return wire.body(**{place or "messages": said, **fields})


@pytest.mark.parametrize("wire", WIRES)
async def test_a_blocked_topic_is_denied_in_any_form(site: Site, wire: Wire) -> None:
    with_policies(site, shipped("block-topics"))
    for text in ("How to make a pipe bomb?", "PIPE  BOMB", "nerve\u200b agent", "ｐｉｐｅ ｂｏｍｂ"):
        for is_stream in (False, True):
            answer = await site.post(wire.path, asking(wire, text, stream=is_stream))
            assert answer.status == 403, text
            assert "topic" in wire.refusal(answer.json())
    assert site.engine.handles == []
    for record in site.records:
        assert (record.outcome, record.error_code) == (Outcome.REJECTED, "permission_denied")
        (decision,) = record.hook_decisions
        assert (decision.policy, decision.result) == ("block-topics", "applied")
        assert "deny" in decision.actions
        assert record.metadata == {"policy:blocked": "topic"}


@pytest.mark.parametrize("wire", WIRES)
async def test_personal_data_is_masked_on_its_way_in_and_out(site: Site, wire: Wire) -> None:
    with_policies(site, shipped("mask-personal-input"), shipped("mask-personal-output"))
    site.engine.play = lambda handle: (
        handle.start().say("Write to bob@exa").say("mple.org or eve@example.org.").finish()
    )
    for is_stream in (False, True):
        answer = await site.post(wire.path, asking(wire, "I am ada@example.org.", stream=is_stream))
        assert answer.status == 200
        assert b"ada@example" not in prompt_of(site)
        assert b"I am ***." in prompt_of(site)
        assert b"@" not in answer.body
        if not is_stream:
            assert wire.text(answer.json()) == "Write to *** or ***."
    assert {one.policy for one in site.records[0].hook_decisions} == {
        "mask-personal-input",
        "mask-personal-output",
    }


async def test_tokens_and_answers_of_one_team_are_bounded(site: Site) -> None:
    with_policies(site, shipped("clamp-tokens"))
    site.engine.play = saying("ok")
    await site.post(CHAT.path, CHAT.body(max_tokens=2000, n=2))
    assert [one.request.max_tokens for one in site.engine.handles] == [2000, 2000]
    site.engine.handles.clear()
    interns = replace(PRINCIPAL, team_id=3, team_name="interns")
    site.keys[KEY] = KeyLookup(KeyState.VALID, interns)
    for name in ("max_tokens", "max_completion_tokens"):
        answer = await site.post(CHAT.path, CHAT.body(**{name: 2000}, n=2))
        assert len(answer.json()["choices"]) == 1
    await site.post(RESPONSES.path, RESPONSES.body(max_output_tokens=2000))
    await site.post(MESSAGES.path, MESSAGES.body(max_tokens=100))
    await site.post(CHAT.path, CHAT.body())
    assert [one.request.max_tokens for one in site.engine.handles] == [512, 512, 512, 100, 512]


@pytest.mark.parametrize("wire", [one for one in WIRES if one.id != "completions"])
async def test_the_organisations_words_come_first(site: Site, wire: Wire) -> None:
    with_policies(site, shipped("require-system-prompt"))
    site.engine.play = saying("ok")
    await site.post(wire.path, asking(wire, "Hello"))
    prompt = prompt_of(site)
    assert prompt.startswith(b"system\nYou are an assistant of this organisation.")
    assert prompt.count(b"organisation") == 1
    assert b"user\nHello" in prompt


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_is_unsure_says_so(site: Site, wire: Wire) -> None:
    with_policies(site, shipped("say-unsure"))
    site.engine.play = lambda handle: handle.start().signal(UNSURE, "Paris").say(" it is").finish()
    answer = await site.post(wire.path, wire.body())
    assert wire.text(answer.json()) == "I am not sure."
    site.engine.play = lambda handle: (
        handle.start().signal(TokenSignal(0.5, 3.0), "Paris").say(" it is").finish()
    )
    answer = await site.post(wire.path, wire.body())
    assert wire.text(answer.json()) == "Paris it is"
    assert [record.metadata for record in site.records] == [{"policy:unsure": ""}, {}]


async def test_an_answer_that_repeats_itself_is_ended(site: Site) -> None:
    with_policies(site, shipped("stop-repetition"))
    again = replace(LOST, num_repetitions=9)
    site.engine.play = lambda handle: handle.start().say("no no").signal(again, " no").say(" no").finish()
    answer = await site.post(CHAT.path, CHAT.body())
    assert (CHAT.text(answer.json()), CHAT.ended(answer.json())) == ("no no", "stop")
    assert site.engine.handles[0].request.signals is not None
    (rule,) = site.engine.handles[0].request.signals.rules
    assert rule.min_repetitions == 8


async def test_a_webhook_is_asked_where_the_model_is_torn(site: Site) -> None:
    for answer, rest, expected in [
        (WebhookAnswer(), "", "Paris"),
        (WebhookAnswer((InjectText("Rome, or ", is_shown=True),)), "!", "Rome, or !"),
        (None, "", "Paris"),
    ]:
        webhooks = ScriptedWebhooks(None if answer is None else lambda call, answer=answer: answer)
        with_policies(site, shipped("review-low-confidence"), webhooks=webhooks)
        site.engine.play = lambda handle, rest=rest: (
            handle.start().signal(TokenSignal(2.0, 0.01), "Paris").say(rest).finish()
        )
        given = await site.post(CHAT.path, CHAT.body())
        assert CHAT.text(given.json()) == expected
        (call,) = webhooks.calls
        assert (call.choice, call.point) == (0, HookPoint.AFTER_PREFILL)
    assert site.records[-1].hook_decisions[0].result == "failed_open"


async def test_who_is_to_be_asked_last_hears_of_each_end_once(site: Site) -> None:
    last = Policy(
        policy_id=9,
        name="audit",
        point=HookPoint.TERMINAL,
        actions=(CallWebhook(3),),
        mode=PolicyMode.ENFORCE,
        on_failure=FailureRule.OPEN,
    )
    no = Policy(
        policy_id=8, name="no", point=HookPoint.BEFORE, actions=(Deny("No."),), mode=PolicyMode.ENFORCE,
        condition='has_word(text.user, "no")',
    )  # fmt: skip
    webhooks = ScriptedWebhooks(lambda call: WebhookAnswer())
    desk = with_policies(site, last, no, webhooks=webhooks)
    site.engine.play = saying("ok")
    await site.post(CHAT.path, CHAT.body())
    await site.post(CHAT.path, CHAT.body(stream=True))
    await site.post(CHAT.path, asking(CHAT, "no"))
    site.engine.play = ScriptedHandle.start
    leaving = site.open(COMPLETIONS.path, COMPLETIONS.body())
    await until(lambda: len(site.engine.handles) == 3)
    leaving.disconnect()
    await leaving.task
    assert await desk.drain(5.0) == 0
    outcomes = [call.outcome for call in webhooks.calls]
    assert sorted([outcome.kind for outcome in outcomes if outcome is not None]) == [
        "cancelled", "denied", "stream_completed", "success",
    ]  # fmt: skip
    assert sum([outcome.texts == ("ok",) for outcome in outcomes if outcome is not None]) == 1


async def test_optional_policies_are_for_those_who_ask_for_them(site: Site) -> None:
    with_policies(site, shipped("block-topics", is_required=False))
    site.engine.play = saying("ok")
    assert (await site.post(CHAT.path, asking(CHAT, "pipe bomb"))).status == 200
    assert (await site.post(CHAT.path, asking(CHAT, "pipe bomb", mesh_hooks=True))).status == 403
    with_policies(site, shipped("block-topics"))
    assert (await site.post(CHAT.path, asking(CHAT, "pipe bomb", skippy_hooks=False))).status == 403


async def test_one_who_observes_is_only_on_record(site: Site) -> None:
    with_policies(site, shipped("block-topics", mode=PolicyMode.OBSERVE))
    site.engine.play = saying("ok")
    assert (await site.post(CHAT.path, asking(CHAT, "pipe bomb"))).status == 200
    (decision,) = site.records[0].hook_decisions
    assert decision.result == "observed"
    assert site.records[0].metadata == {}
