"""Policies that call webhooks, over real connections: what these do reaches their own request by its rule."""

import asyncio
from dataclasses import replace

import pytest

from hooks.contracts.actions import CallWebhook, Deny, InjectText, ReplaceText, SetParameter, Tag, TextTarget
from hooks.contracts.decisions import DecisionResult, HookDenied, HookFailed, TextEdit
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, PolicyMode
from hooks.contracts.signals import FirstTokenSignals
from hooks.contracts.view import OutputText
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.examples import SHIPPED
from hooks.webhooks.caller import HttpWebhookCaller
from tests.hook_parts import chat, exchange_of, policy
from tests.webhook_calls import webhook_settings
from tests.webhook_receiver import Receiver, always, answer

DENY = {"type": "deny", "message": "Not here."}
TAG = {"type": "tag", "name": "seen"}
ALL = WebhookRights(frozenset(BodyPart), frozenset({Deny, InjectText, SetParameter, Tag, ReplaceText}))


@pytest.fixture
async def receiver():
    async with Receiver() as made:
        yield made


@pytest.fixture
async def caller(receiver):
    async def here(_host, _port):
        return ["127.0.0.1"]

    made = HttpWebhookCaller(resolve=here)
    made.use([webhook_settings(receiver.url(), rights=ALL)])
    yield made
    await made.close()


def asking(caller, point, **members):
    """An exchange with one policy that calls the webhook."""
    return exchange_of(
        policy(point, CallWebhook(1), **{"deadline_s": 30.0, **members}),
        webhooks=caller,
    )


async def hang(_received, _writer):
    await asyncio.Event().wait()


BAD = {
    "hangs": hang,
    "10 MB": always(answer(b"a" * 10_000_000)),
    "garbage": always(answer(b"\xff\xfe{[")),
    "another webhook": always(answer({"actions": [{"type": "call_webhook", "webhook_id": 1}]})),
    "503": always(answer(b"", "503 Service Unavailable")),
    "no sense at the point": always(
        answer({"actions": [{"type": "set_parameter", "name": "n", "value": 1}]})
    ),
}


async def test_its_denial_denies(caller, receiver):
    receiver.behave = always(answer({"actions": [TAG, {**DENY, "status": 451}]}))
    exchange = asking(caller, HookPoint.BEFORE)

    with pytest.raises(HookDenied) as denied:
        await exchange.before(chat("hi"))
    assert (denied.value.message, denied.value.status) == ("Not here.", 451)
    assert exchange.tags == {"seen": ""}
    body = receiver.received[0].json
    assert (body["text"], body["request"]["id"], body["caller"]["user"]) == ("hi", "req-1", "ada")


async def test_what_it_changes_is_changed_and_what_it_may_not_is_recorded(caller, receiver):
    actions = [
        {"type": "set_parameter", "name": "max_tokens", "value": 5},
        {"type": "add_system_prompt", "text": "Be kind."},
    ]
    receiver.behave = always(answer({"actions": actions}))
    exchange = asking(caller, HookPoint.BEFORE)
    view = await exchange.before(chat("hi"))

    assert view.parameters["max_tokens"] == 5
    assert len(view.messages) == 1
    [decision] = exchange.decisions
    assert decision.result is DecisionResult.REFUSED
    assert decision.reason == "against the webhook's rights"


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("rule", FailureRule)
async def test_a_bad_webhook_fails_by_the_rule_of_its_policy(caller, receiver, name, rule):
    receiver.behave = BAD[name]
    deadline_s = 0.5 if name == "hangs" else 30.0
    # The last one makes sense before a request, and not behind its end.
    point = HookPoint.AFTER_PREFILL if name == "no sense at the point" else HookPoint.BEFORE
    exchange = asking(caller, point, deadline_s=deadline_s, on_failure=rule)

    async def fire():
        if point is HookPoint.BEFORE:
            await exchange.before(chat("hi"))
        else:
            await exchange.after_prefill(FirstTokenSignals(1.0, 1.0), choice=0)

    if rule is FailureRule.CLOSED:
        with pytest.raises(HookFailed):
            await fire()
    else:
        await fire()
    [decision] = exchange.decisions
    expected = DecisionResult.FAILED_CLOSED if rule is FailureRule.CLOSED else DecisionResult.FAILED_OPEN
    assert decision.result is expected
    assert decision.reason


async def test_one_that_is_only_observed_is_asked_and_changes_nothing(caller, receiver):
    receiver.behave = always(answer({"actions": [DENY]}))
    exchange = asking(caller, HookPoint.BEFORE, mode=PolicyMode.OBSERVE)
    await exchange.before(chat("hi"))

    assert receiver.received[0].json["policy"]["is_observed"] is True
    assert [one.result for one in exchange.decisions] == [DecisionResult.OBSERVED]


async def test_a_client_that_leaves_takes_its_call_with_it(caller, receiver):
    receiver.behave = hang
    exchange = asking(caller, HookPoint.BEFORE)
    task = asyncio.create_task(exchange.before(chat("hi")))
    await receiver.until(lambda one: len(one.received) == 1)
    task.cancel()

    await receiver.until(lambda one: one.num_ended == 1)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert caller.statistics()[0].breaker.num_failures == 0


async def test_it_sees_output_and_the_end(caller, receiver):
    exchange = asking(caller, HookPoint.OUTPUT)
    await exchange.before_output(OutputText(0, content="The answer.", is_last=True))
    ending = asking(caller, HookPoint.TERMINAL)
    await ending.before(chat("hi"))
    ending.conclude(TerminalOutcome("success", 200, texts=("The answer.",)))
    await receiver.until(lambda one: len(one.received) == 2)

    output, outcome = (got.json for got in receiver.received)
    assert output["output"]["content"] == "The answer."
    assert outcome["outcome"] == {"kind": "success", "status": 200, "message": "", "texts": ["The answer."]}


async def test_the_shipped_example_asks_about_what_the_model_is_unsure_of(caller, receiver):
    [example] = [one for one in SHIPPED if one.needs_webhook]
    receiver.behave = always(answer({"actions": [DENY]}))
    shown = replace(
        example.policy,
        policy_id=1,
        mode=PolicyMode.ENFORCE,
        is_required=True,
        deadline_s=30.0,
        actions=(CallWebhook(1),),
    )
    exchange = exchange_of(shown, webhooks=caller)
    await exchange.before(chat("hi"))
    await exchange.after_prefill(FirstTokenSignals(entropy=0.01, margin=9.0), choice=0)
    assert not receiver.received

    with pytest.raises(HookDenied):
        await exchange.after_prefill(FirstTokenSignals(entropy=6.0, margin=0.01), choice=0)
    assert receiver.received[0].json["signals"]["entropy"] == 6.0


async def test_text_that_it_puts_in_place_of_the_answer_is_what_is_released(caller, receiver):
    replacement = {"type": "replace_text", "target": "content", "text": "Something else."}
    receiver.behave = always(answer({"actions": [replacement]}))
    exchange = asking(caller, HookPoint.OUTPUT)
    verdict = await exchange.before_output(OutputText(0, content="The answer.", is_last=True))

    assert verdict.edits == (TextEdit(TextTarget.CONTENT, 0, 11, "Something else."),)
