"""Each policy that is shipped does what it says, and is off until somebody turns it on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hooks.conditions import condition_check
from hooks.contracts.actions import ACTIONS_AT, CallWebhook, InjectText, StopReason, TextTarget
from hooks.contracts.decisions import DecisionResult, HookDenied, TextEdit
from hooks.contracts.policies import PolicyMode
from hooks.contracts.signals import FirstTokenSignals
from hooks.contracts.view import HookCaller, OutputText, RequestView
from hooks.contracts.webhooks import WebhookAnswer
from hooks.examples import SHIPPED
from hooks.exchange import RequestExchange
from tests.hook_parts import CALLER, ScriptedWebhooks, chat, desk_of, said, window

BY_NAME = {example.policy.name: example.policy for example in SHIPPED}


def switched_on(
    name: str, *, caller: HookCaller = CALLER, webhooks: ScriptedWebhooks | None = None
) -> RequestExchange:
    policy = replace(BY_NAME[name], mode=PolicyMode.ENFORCE)
    actions = tuple(CallWebhook(7) if isinstance(one, CallWebhook) else one for one in policy.actions)
    desk = desk_of(replace(policy, actions=actions), webhooks=webhooks)
    exchange = desk.open(caller, model="small", endpoint="chat.completions", opts_in=False, request_id="r")
    assert exchange is not None
    return exchange


@pytest.mark.parametrize("example", SHIPPED, ids=lambda example: example.policy.name)
def test_an_example_is_off_and_can_be_saved(example):
    policy = example.policy

    assert policy.mode is PolicyMode.OFF
    assert condition_check(policy.condition, policy.point) == ()
    assert all(type(action) in ACTIONS_AT[policy.point] for action in policy.actions)
    assert example.description
    assert example.needs_webhook == (policy.name == "review-low-confidence")


def test_examples_have_names_of_their_own():
    assert len(BY_NAME) == len(SHIPPED) == len({example.policy.policy_id for example in SHIPPED})


@pytest.mark.parametrize(
    "text",
    ["how to build a pipe bomb", "PIPE\nBOMB", "ｐｉｐｅ ｂｏｍｂ?", "p\u200bi\u200bpe bomb", "nerve agent"],
)
async def test_topics_are_blocked_in_whatever_form(text):
    with pytest.raises(HookDenied) as denied:
        await switched_on("block-topics").before(chat(said(text, "tool"), "go on"))

    assert (denied.value.status, denied.value.code) == (403, "topic_blocked")


async def test_a_topic_is_blocked_in_whatever_a_model_may_read():
    with pytest.raises(HookDenied):
        await switched_on("block-topics").before(chat("hi", other_texts=("makes a Pipe Bomb",)))


@pytest.mark.parametrize("text", ["a pipe and a bomb", "pipe bombastic", "an agent with nerve"])
async def test_other_topics_are_not_blocked(text):
    view = chat(text)

    assert await switched_on("block-topics").before(view) is view


async def test_personal_data_is_masked_in_the_input():
    effective = await switched_on("mask-personal-input").before(
        chat("I am joe@example.com, card 4111 1111 1111 1111")
    )

    assert effective.messages[0].text == "I am ***, card ***"


async def test_personal_data_is_masked_in_the_output():
    exchange = switched_on("mask-personal-output")
    output = OutputText(
        0,
        "mail joe@example.com",
        "card 4111-1111-1111-1111?",
        {0: '{"to": "joe@example.com"}'},
        is_last=True,
    )

    verdict = await exchange.before_output(output)

    assert verdict.edits == (
        TextEdit(TextTarget.CONTENT, 5, 20, "***"),
        TextEdit(TextTarget.REASONING, 5, 24, "***"),
        TextEdit(TextTarget.ARGUMENTS, 8, 23, "***", call=0),
    )
    assert verdict.stop is None
    assert exchange.held_chars == 128


@pytest.mark.parametrize("sent", [{}, {"max_tokens": 4000, "n": 5}, {"max_completion_tokens": 4000}])
async def test_tokens_of_one_team_are_clamped(sent):
    intern = replace(CALLER, team_name="interns")
    view = chat("hi", parameters=sent)

    clamped = await switched_on("clamp-tokens", caller=intern).before(view)

    assert clamped.parameters["max_tokens"] == 512
    assert clamped.parameters.get("n", 1) == 1
    assert await switched_on("clamp-tokens").before(view) is view


async def test_a_system_prompt_is_there_once():
    exchange = switched_on("require-system-prompt")

    once = await exchange.before(chat(said("Speak like a pirate.", "system"), "hi"))
    twice = await switched_on("require-system-prompt").before(once)

    assert once.messages[0].text.startswith("You are an assistant of this organisation.")
    assert once.messages[0].text.endswith("Speak like a pirate.")
    assert twice is once
    completion = RequestView(endpoint="completions", model="m", prompts=("x",))
    assert await switched_on("require-system-prompt").before(completion) is completion


async def test_a_model_that_is_not_sure_says_so():
    exchange = switched_on("say-unsure")

    sure = await exchange.after_prefill(FirstTokenSignals(entropy=1.0, margin=2.0), choice=0)
    unsure = await exchange.after_prefill(FirstTokenSignals(entropy=4.0, margin=0.1), choice=1)

    assert (sure.injections, sure.stop) == ((), None)
    assert unsure.injections == (InjectText("I am not sure.", is_shown=True),)
    assert unsure.stop is StopReason.STOP
    assert exchange.tags == {"unsure": ""}


async def test_an_answer_that_repeats_itself_ends():
    exchange = switched_on("stop-repetition")

    assert (await exchange.mid_generation(window(num_repetitions=7), choice=0)).stop is None
    assert (await exchange.mid_generation(window(num_repetitions=8), choice=0)).stop is StopReason.STOP
    (rule,) = exchange.window_rules
    assert rule.min_repetitions == 8


async def test_a_webhook_hears_of_low_confidence():
    webhooks = ScriptedWebhooks({7: WebhookAnswer((InjectText("Let me look that up."),))})
    exchange = switched_on("review-low-confidence", webhooks=webhooks)

    await exchange.after_prefill(FirstTokenSignals(entropy=1.0, margin=1.0), choice=0)
    assert webhooks.calls == []
    verdict = await exchange.after_prefill(FirstTokenSignals(entropy=1.0, margin=0.05), choice=0)

    assert webhooks.calls[0].signals == FirstTokenSignals(entropy=1.0, margin=0.05)
    assert [one.text for one in verdict.injections] == ["Let me look that up."]
    assert exchange.tags == {"reviewed": ""}


async def test_a_webhook_that_is_down_holds_nothing_up():
    exchange = switched_on("review-low-confidence")

    verdict = await exchange.after_prefill(FirstTokenSignals(entropy=1.0, margin=0.05), choice=0)

    assert verdict.injections == ()
    assert exchange.decisions[0].result is DecisionResult.FAILED_OPEN
