"""What policies do to a request that passes its points."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import replace

import pytest

from hooks.conditions import RequestTexts
from hooks.conditions.word_search import PatternSearch
from hooks.contracts.actions import (
    AddSystemPrompt,
    CallWebhook,
    CapsuleMarker,
    ConsumeMedia,
    Deny,
    InjectText,
    MaskText,
    SetParameter,
    StopGeneration,
    StopReason,
    Tag,
    TextTarget,
)
from hooks.contracts.decisions import DecisionResult, HookDenied, HookFailed, OutputVerdict, TextEdit
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, PolicyMode, PolicyScope
from hooks.contracts.signals import FirstTokenSignals, WindowRule
from hooks.contracts.snapshots import UNREAD
from hooks.contracts.view import MessageView, OutputText, RequestView, TextPart
from hooks.contracts.webhooks import WebhookAnswer, WebhookFailed
from hooks.exchange import decision_log
from hooks.matching import Mask
from tests.hook_parts import (
    CALLER,
    Observed,
    ScriptedWebhooks,
    chat,
    desk_of,
    exchange_of,
    policy,
    said,
    window,
)

BEFORE, EFFECTIVE = HookPoint.BEFORE, HookPoint.EFFECTIVE
PREFILL, MID, OUTPUT, TERMINAL = (
    HookPoint.AFTER_PREFILL,
    HookPoint.MID_GENERATION,
    HookPoint.OUTPUT,
    HookPoint.TERMINAL,
)
SIGNALS = FirstTokenSignals(entropy=2.0, margin=0.5)


def opened(desk, *, opts_in=False, model="small", caller=CALLER):
    return desk.open(caller, model=model, endpoint="chat.completions", opts_in=opts_in, request_id="r")


async def test_without_a_policy_that_concerns_it_a_request_has_no_exchange():
    others = policy(BEFORE, Tag("x"), scope=PolicyScope(team_ids=frozenset({99})))

    assert opened(desk_of()) is None
    assert opened(desk_of(others)) is None
    assert opened(desk_of(policy(BEFORE, Tag("x"), mode=PolicyMode.OFF))) is None


async def test_optional_policies_hold_for_those_who_ask_for_them_and_required_ones_for_everybody():
    desk = desk_of(policy(BEFORE, Tag("optional"), is_required=False), policy(BEFORE, Tag("required")))

    without, asking = opened(desk), opened(desk, opts_in=True)
    await without.before(chat("hi"))
    await asking.before(chat("hi"))

    assert without.tags == {"required": ""}
    assert asking.tags == {"optional": "", "required": ""}


@pytest.mark.parametrize(
    ("scope", "concerns"),
    [
        (PolicyScope(), True),
        (PolicyScope(user_ids=frozenset({1}), models=frozenset({"small"})), True),
        (PolicyScope(user_ids=frozenset({1}), models=frozenset({"large"})), False),
        (PolicyScope(key_ids=frozenset({2})), True),
        (PolicyScope(key_ids=frozenset({7})), False),
        (PolicyScope(team_ids=frozenset({3})), True),
    ],
)
async def test_a_scope_limits_by_all_that_it_names(scope, concerns):
    assert (opened(desk_of(policy(BEFORE, Tag("x"), scope=scope))) is not None) is concerns


async def test_what_is_applied_is_applied_in_order_and_equal_orders_by_id():
    exchange = exchange_of(
        policy(BEFORE, InjectText("second "), order=5),
        policy(BEFORE, InjectText("third "), order=5),
        policy(BEFORE, InjectText("first "), order=1),
    )

    effective = await exchange.before(chat("hi"))

    assert effective.messages[0].text == "third second first hi"


@pytest.mark.parametrize("num", [1, 2, 3, 32, 33, 70])
async def test_of_many_policies_exactly_those_that_match_are_applied(num):
    conditions = ["request.n == 2 // never", "text.input == 'hi'"]
    observer = Observed()
    exchange = exchange_of(
        *[
            policy(
                BEFORE,
                Tag(f"t{place}"),
                condition=conditions[1 if place % 7 == 5 else 0],
                on_failure=FailureRule.OPEN,
            )
            for place in range(num)
        ],
        observer=observer,
    )

    await exchange.before(chat("hi"))

    assert list(exchange.tags) == [f"t{place}" for place in range(num) if place % 7 == 5]
    assert [one.has_matched for one in observer.firings] == [place % 7 == 5 for place in range(num)]
    assert all(one.elapsed_s > 0 for one in observer.firings)


@pytest.mark.parametrize(
    "fault", ["request.metadata['x'] == ''", "no such thing", "model.matches(text.system)"]
)
async def test_one_that_fails_among_many_that_do_not_match_fails(fault):
    silent = [policy(BEFORE, Tag("t"), condition=f"request.n == {place + 2}") for place in range(9)]
    failing = policy(BEFORE, Tag("t"), condition=fault, on_failure=FailureRule.OPEN)
    exchange = exchange_of(*silent[:4], failing, *silent[4:])

    await exchange.before(chat(said("(", "system"), "hi"))

    assert [one.policy for one in exchange.decisions] == [failing.name]
    assert exchange.decisions[0].result is DecisionResult.FAILED_OPEN


async def test_a_broken_policy_among_many_that_do_not_match_fails():
    silent = [policy(BEFORE, Tag("t"), condition=f"request.n == {place + 2}") for place in range(4)]
    broken = policy(BEFORE, StopGeneration(), condition="request.n == 9", on_failure=FailureRule.OPEN)
    exchange = exchange_of(*silent, broken)

    await exchange.before(chat("hi"))

    assert [one.policy for one in exchange.decisions] == [broken.name]


async def test_all_policies_of_a_point_see_the_same_input():
    exchange = exchange_of(
        policy(BEFORE, InjectText("poison "), order=1),
        policy(BEFORE, Deny("no"), order=2, condition="text.input.contains('poison')"),
    )

    effective = await exchange.before(chat("hi"))

    assert effective.messages[0].text == "poison hi"


async def test_the_original_view_is_left_as_it_was():
    view = chat(said("be kind", "system"), "hi", parameters={"temperature": 1.0})

    effective = await exchange_of(policy(BEFORE, SetParameter("temperature", 0.0), InjectText("x"))).before(
        view
    )

    assert view.parameters == {"temperature": 1.0}
    assert view.messages[1].text == "hi"
    assert effective.messages[0] is view.messages[0]


async def test_a_denial_wins_over_what_comes_before_it_and_names_its_policy():
    exchange = exchange_of(
        policy(BEFORE, SetParameter("n", 1), Tag("seen"), order=1),
        policy(BEFORE, Deny("not that", status=451, code="nope"), order=2, name="last"),
    )

    with pytest.raises(HookDenied) as denied:
        await exchange.before(chat("hi"))

    assert (denied.value.message, denied.value.status, denied.value.code, denied.value.policy) == (
        "not that",
        451,
        "nope",
        "last",
    )
    assert exchange.tags == {"seen": ""}
    assert [one.result for one in exchange.decisions] == [DecisionResult.REFUSED, DecisionResult.APPLIED]


async def test_of_two_denials_the_first_in_order_is_the_one_that_is_told():
    exchange = exchange_of(policy(BEFORE, Deny("later"), order=2), policy(BEFORE, Deny("sooner"), order=1))

    with pytest.raises(HookDenied, match="sooner"):
        await exchange.before(chat("hi"))


async def test_a_denial_wins_over_a_policy_that_could_not_be_asked():
    exchange = exchange_of(
        policy(BEFORE, Tag("x"), condition="request.metadata['k'] == 'v'", order=1),
        policy(BEFORE, Deny("no"), order=2),
    )

    with pytest.raises(HookDenied):
        await exchange.before(chat("hi"))


async def test_an_effective_policy_sees_the_changed_request_and_changes_nothing():
    exchange = exchange_of(
        policy(BEFORE, InjectText("word ")),
        policy(EFFECTIVE, Tag("saw"), condition="text.input.contains('word')"),
    )

    effective = await exchange.before(chat("hi"))

    assert exchange.tags == {"saw": ""}
    assert effective.messages[0].text == "word hi"


async def test_later_points_see_the_effective_request():
    exchange = exchange_of(
        policy(BEFORE, InjectText("word ")),
        policy(PREFILL, StopGeneration(), condition="text.input.contains('word')"),
    )

    await exchange.before(chat("hi"))

    assert (await exchange.after_prefill(SIGNALS, choice=0)).stop is StopReason.CONTENT_FILTER


@pytest.mark.parametrize("point", [PREFILL, MID])
async def test_what_goes_into_a_generation_does_not_change_the_request(point):
    """Its words are not the user's: later points would take them for his."""
    view = chat("hi")
    exchange = exchange_of(
        policy(point, InjectText("swordfish")), policy(OUTPUT, Tag("x"), condition="text.input == 'hi'")
    )
    await exchange.before(view)

    if point is PREFILL:
        verdict = await exchange.after_prefill(SIGNALS, choice=0)
    else:
        verdict = await exchange.mid_generation(window(), choice=0)
    await exchange.before_output(OutputText(choice=0, content="so", is_last=True))

    assert [one.text for one in verdict.injections] == ["swordfish"]
    assert exchange.tags == {"x": ""}


async def test_what_is_not_there_to_be_done_is_left_out_and_the_rest_is_done():
    exchange = exchange_of(policy(BEFORE, ConsumeMedia(), InjectText("note "), Tag("t")))

    effective = await exchange.before(chat("hi"))

    assert effective.messages[0].text == "note hi"
    assert exchange.tags == {"t": ""}
    assert [(one.result, one.reason) for one in exchange.decisions] == [
        (DecisionResult.REFUSED, "there is no picture or sound")
    ]


async def test_a_denied_request_does_not_reach_effective_policies():
    exchange = exchange_of(policy(BEFORE, Deny("no")), policy(EFFECTIVE, Tag("saw")))

    with pytest.raises(HookDenied):
        await exchange.before(chat("hi"))

    assert exchange.tags == {}


async def test_an_observing_policy_records_what_it_would_do_and_does_nothing():
    exchange = exchange_of(policy(BEFORE, Deny("no"), InjectText("x"), Tag("t"), mode=PolicyMode.OBSERVE))

    view = chat("hi")

    assert await exchange.before(view) is view
    (decision,) = exchange.decisions
    assert decision.result is DecisionResult.OBSERVED
    assert decision.actions == ("deny", "inject_text", "tag")
    assert exchange.tags == {}


async def test_policies_that_do_not_match_are_only_counted():
    observer = Observed()
    exchange = exchange_of(policy(BEFORE, Deny("no"), condition="request.n > 5"), observer=observer)

    await exchange.before(chat("hi"))

    assert exchange.decisions == ()
    assert [(one.has_matched, one.result) for one in observer.firings] == [(False, None)]


@pytest.mark.parametrize(
    ("rule", "mode", "result"),
    [
        (FailureRule.CLOSED, PolicyMode.ENFORCE, DecisionResult.FAILED_CLOSED),
        (FailureRule.OPEN, PolicyMode.ENFORCE, DecisionResult.FAILED_OPEN),
        (FailureRule.CLOSED, PolicyMode.OBSERVE, DecisionResult.FAILED_OPEN),
    ],
)
async def test_a_condition_with_an_error_follows_the_failure_rule(rule, mode, result):
    exchange = exchange_of(
        policy(
            BEFORE,
            InjectText("x"),
            condition="request.metadata['none'] == 'x'",
            on_failure=rule,
            mode=mode,
            name="asked",
        )
    )

    if result is DecisionResult.FAILED_CLOSED:
        with pytest.raises(HookFailed) as failed:
            await exchange.before(chat("hi"))
        assert failed.value.policy == "asked"
    else:
        assert (await exchange.before(chat("hi"))).messages[0].text == "hi"

    assert [(one.result, one.reason) for one in exchange.decisions] == [
        (result, "the condition has an error")
    ]


async def test_a_policy_that_does_not_compile_fails_and_the_others_go_on():
    broken = policy(BEFORE, Deny("no"), condition="no such thing", on_failure=FailureRule.OPEN)
    exchange = exchange_of(broken, policy(BEFORE, Tag("other")))

    await exchange.before(chat("hi"))

    assert exchange.tags == {"other": ""}
    assert exchange.decisions[0].result is DecisionResult.FAILED_OPEN


@pytest.mark.parametrize("rule", FailureRule)
async def test_a_policy_whose_row_cannot_be_read_fails_as_its_rule_says(rule):
    exchange = exchange_of(policy(BEFORE, on_failure=rule, fault="its actions are none"))

    with pytest.raises(HookFailed) if rule is FailureRule.CLOSED else contextlib.nullcontext():
        await exchange.before(chat("hi"))

    failed = DecisionResult.FAILED_CLOSED if rule is FailureRule.CLOSED else DecisionResult.FAILED_OPEN
    assert exchange.decisions[0].result is failed


async def test_until_rows_were_read_everybody_is_refused():
    exchange = opened(desk_of(*UNREAD.policies))

    with pytest.raises(HookFailed):
        await exchange.before(chat("hi"))


async def test_an_action_that_fails_takes_back_all_of_its_policy():
    many = "a" + " a" * 20_000
    exchange = exchange_of(
        policy(
            BEFORE,
            SetParameter("n", 1),
            MaskText((TextTarget.INPUT,), words=("a",)),
            on_failure=FailureRule.OPEN,
        ),
        policy(BEFORE, Tag("other")),
    )

    effective = await exchange.before(chat(many))

    assert dict(effective.parameters) == {}
    assert exchange.tags == {"other": ""}
    assert exchange.decisions[0].reason == "the text has too many matches"


async def test_a_large_text_is_read_and_masked_beside_the_event_loop():
    text = "ｘ " * 80_000 + "bomb"
    exchange = exchange_of(
        policy(BEFORE, Tag("found"), condition="has_word(text.folded, 'bomb')"),
        policy(BEFORE, MaskText((TextTarget.INPUT,), words=("bomb",))),
    )
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    effective = await exchange.before(chat(text))
    counting.cancel()

    assert effective.messages[0].text.endswith("ｘ ***")
    assert exchange.tags == {"found": ""}
    assert turns > 1


@pytest.mark.parametrize("field", ["reasoning", "tool_arguments", "prompts"])
async def test_large_text_is_masked_beside_the_event_loop_wherever_it_stands(field):
    text = '"' + "ｘ " * 40_000 + 'bomb"'
    exchange = exchange_of(policy(BEFORE, MaskText((TextTarget.INPUT,), words=("bomb",))))
    turn = MessageView("assistant", (TextPart("Hi"),))
    view = {
        "reasoning": RequestView("e", "m", messages=(replace(turn, reasoning=text),)),
        "tool_arguments": RequestView("e", "m", messages=(replace(turn, tool_arguments=(text,)),)),
        "prompts": RequestView("e", "m", prompts=(text,)),
    }[field]
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    effective = await exchange.before(view)
    counting.cancel()

    assert effective is not view
    assert effective.num_chars == len(text) - len("bomb") + len("***") + 2 * len(view.messages)
    assert turns > 1


@pytest.fixture
def slow(monkeypatch):
    """Patterns take until the test is over."""
    is_over = threading.Event()
    masked = Mask.masked

    def wait(mask: Mask, text: str, **rest: bool) -> str:
        if mask.patterns:
            is_over.wait(10)
        return masked(mask, text, **rest)

    monkeypatch.setattr(PatternSearch, "answer", lambda search, moment: is_over.wait(10))
    monkeypatch.setattr(Mask, "masked", wait)
    yield
    is_over.set()


@pytest.mark.parametrize("rule", list(FailureRule))
@pytest.mark.usefixtures("slow")
async def test_a_pattern_that_takes_too_long_is_given_up_in_time_while_others_go_on(rule):
    exchange = exchange_of(
        policy(BEFORE, Tag("x"), condition="text.input.matches('a+')", deadline_s=0.05, on_failure=rule)
    )
    asking = asyncio.create_task(exchange.before(chat("a" * 5_000)))
    turns = 0
    while not asking.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 1
    assert isinstance(asking.exception(), HookFailed) is (rule is FailureRule.CLOSED)
    (decision,) = exchange.decisions
    assert decision.reason == "the deadline has passed"
    assert exchange.tags == {}


@pytest.mark.usefixtures("slow")
async def test_a_mask_that_takes_too_long_fails_and_the_others_mask():
    late = MaskText((TextTarget.INPUT,), patterns=("b",))
    exchange = exchange_of(
        policy(BEFORE, MaskText((TextTarget.INPUT,), words=("secret",))),
        policy(BEFORE, late, deadline_s=0.05, on_failure=FailureRule.OPEN),
    )
    effective = await exchange.before(chat("secret " + "a" * 5_000))
    assert effective.messages[0].text.startswith("*** aaa")
    assert [one.reason for one in exchange.decisions] == ["", "the deadline has passed"]


@pytest.mark.parametrize("rule", list(FailureRule))
async def test_what_cannot_be_masked_follows_the_failure_rule_and_the_rest_is_masked(rule):
    mask = MaskText((TextTarget.INPUT,), words=("secret",))
    exchange = exchange_of(policy(BEFORE, mask, on_failure=rule), policy(BEFORE, Tag("after")))
    view = chat("a secret", other_texts=("a secret enum",))
    if rule is FailureRule.CLOSED:
        with pytest.raises(HookFailed):
            await exchange.before(view)
        assert exchange.decisions[0].result is DecisionResult.FAILED_CLOSED
    else:
        assert (await exchange.before(view)).messages[0].text == "a ***"
        assert exchange.decisions[0].result is DecisionResult.REFUSED
    assert exchange.decisions[0].reason == "something is found where it cannot be masked"
    assert exchange.decisions[1].result is DecisionResult.APPLIED


async def test_all_that_is_read_counts_where_reading_is_put_on_a_thread():
    turn = MessageView("tool", (TextPart("ab"),), name="c", reasoning="defg", tool_arguments=("hi", "jkl"))
    view = RequestView("e", "m", messages=(turn, turn), prompts=("mn", None), other_texts=("op",))

    assert (turn.num_chars, view.num_chars, RequestTexts(view).num_chars) == (12, 26, 28)


async def test_webhooks_of_a_point_run_at_the_same_time_and_stand_where_their_call_stands():
    both = asyncio.Event()

    async def met(call):
        if call.webhook_id == 1:
            await both.wait()
        else:
            both.set()
        return WebhookAnswer((InjectText(f"{call.webhook_id} "),))

    webhooks = ScriptedWebhooks({1: met, 2: met})
    exchange = exchange_of(
        policy(BEFORE, InjectText("a "), CallWebhook(1), order=1),
        policy(BEFORE, CallWebhook(2), InjectText("b "), order=2),
        webhooks=webhooks,
    )

    effective = await exchange.before(chat("hi"))

    assert effective.messages[0].text == "b 2 1 a hi"
    assert [call.request_id for call in webhooks.calls] == ["req-1", "req-1"]
    assert exchange.decisions[0].actions == ("inject_text", "inject_text")


async def hang(_call):
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (WebhookFailed("circuit open"), "circuit open"),
        (ValueError("what the user wrote"), "the evaluation failed"),
        (hang, "the deadline has passed"),
        ("garbage", "a webhook's answer makes no sense"),
        (WebhookAnswer((StopGeneration(),)), "a webhook's answer makes no sense"),
        (WebhookAnswer((CallWebhook(2),)), "a webhook's answer makes no sense"),
        (WebhookAnswer((Deny("x", status=200),)), "a webhook's answer makes no sense"),
        (WebhookAnswer((Tag("x"),) * 33), "a webhook's answer makes no sense"),
        (WebhookAnswer((object(),)), "a webhook's answer makes no sense"),
    ],
)
@pytest.mark.parametrize("rule", list(FailureRule))
async def test_a_webhook_without_a_sensible_answer_follows_the_failure_rule(answer, reason, rule):
    exchange = exchange_of(
        policy(BEFORE, CallWebhook(1), on_failure=rule, deadline_s=0.01 if answer is hang else 5.0),
        policy(BEFORE, Tag("other"), order=200),
        webhooks=ScriptedWebhooks({1: answer}),
    )

    if rule is FailureRule.CLOSED:
        with pytest.raises(HookFailed):
            await exchange.before(chat("hi"))
    else:
        await exchange.before(chat("hi"))

    assert exchange.tags == {"other": ""}
    assert exchange.decisions[0].reason == reason


async def test_a_webhook_that_does_not_heed_its_cancellation_holds_nobody():
    released = asyncio.Event()

    async def stubborn(_call):
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return WebhookAnswer()

    exchange = exchange_of(
        policy(BEFORE, CallWebhook(1), on_failure=FailureRule.OPEN, deadline_s=0.01),
        webhooks=ScriptedWebhooks({1: stubborn}),
    )

    await exchange.before(chat("hi"))

    assert exchange.decisions[0].result is DecisionResult.FAILED_OPEN
    released.set()
    await asyncio.sleep(0)


async def test_a_cancelled_request_cancels_the_webhooks_in_flight():
    webhooks = ScriptedWebhooks({1: hang, 2: hang})
    exchange = exchange_of(policy(BEFORE, CallWebhook(1)), policy(BEFORE, CallWebhook(2)), webhooks=webhooks)
    task = asyncio.create_task(exchange.before(chat("hi")))
    while webhooks.num_in_flight < 2:
        await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while webhooks.num_in_flight:
        await asyncio.sleep(0)

    assert webhooks.num_cancelled == 2


async def test_what_a_webhook_may_not_do_is_recorded_and_the_rest_is_done():
    exchange = exchange_of(
        policy(BEFORE, CallWebhook(1)),
        webhooks=ScriptedWebhooks({1: WebhookAnswer((Tag("t"),), refused=("deny",))}),
    )

    await exchange.before(chat("hi"))

    assert exchange.tags == {"t": ""}
    (decision,) = exchange.decisions
    assert (decision.result, decision.reason) == (DecisionResult.REFUSED, "against the webhook's rights")


async def test_an_observing_policys_webhook_is_told_so():
    webhooks = ScriptedWebhooks({1: WebhookAnswer((Deny("no"),))})
    exchange = exchange_of(policy(BEFORE, CallWebhook(1), mode=PolicyMode.OBSERVE), webhooks=webhooks)

    await exchange.before(chat("hi"))

    assert webhooks.calls[0].is_observed
    assert exchange.decisions[0].actions == ("deny",)


async def test_a_verdict_has_injections_with_the_places_of_their_decisions():
    exchange = exchange_of(
        policy(PREFILL, Tag("t"), order=1),
        policy(PREFILL, InjectText("one"), InjectText(""), InjectText("two"), order=2),
        policy(PREFILL, InjectText("three"), order=3),
    )

    verdict = await exchange.after_prefill(SIGNALS, choice=2)

    assert [one.text for one in verdict.injections] == ["one", "two", "three"]
    assert verdict.decision_places == (1, 1, 2)
    assert {one.choice for one in exchange.decisions} == {2}


async def test_what_the_engine_made_of_an_injection_is_noted_with_its_decision():
    exchange = exchange_of(
        policy(PREFILL, InjectText("one"), order=1), policy(PREFILL, InjectText("two"), order=2)
    )
    first, second = (await exchange.after_prefill(SIGNALS, choice=0)).decision_places

    exchange.note_injection(first, num_injected=4, num_discarded=1)
    exchange.note_injection(second, num_injected=0, num_discarded=0, refusal="inside a grammar")

    applied, refused = exchange.decisions
    assert (applied.result, applied.num_injected_tokens, applied.num_discarded_tokens) == (
        DecisionResult.APPLIED,
        4,
        1,
    )
    assert (refused.result, refused.reason) == (DecisionResult.REFUSED, "inside a grammar")


async def test_signals_decide_after_prefill():
    exchange = exchange_of(
        policy(PREFILL, StopGeneration(StopReason.STOP), condition="signals.entropy > 3.0 && choice == 1")
    )
    unsure = FirstTokenSignals(entropy=3.5, margin=0.0)

    assert (await exchange.after_prefill(SIGNALS, choice=1)).stop is None
    assert (await exchange.after_prefill(unsure, choice=0)).stop is None
    assert (await exchange.after_prefill(unsure, choice=1)).stop is StopReason.STOP


async def test_windows_are_told_by_distinct_rules_and_only_to_those_whose_rule_fired():
    often, seldom = WindowRule(min_between=8), WindowRule(min_between=64)
    exchange = exchange_of(
        policy(MID, Tag("a"), window=often),
        policy(MID, Tag("b"), window=seldom),
        policy(MID, Tag("c"), window=often),
    )

    assert exchange.window_rules == (often, seldom)
    await exchange.mid_generation(window(rules=(0,)), choice=0)
    assert exchange.tags == {"a": "", "c": ""}
    await exchange.mid_generation(window(rules=(1,)), choice=0)
    assert exchange.tags == {"a": "", "b": "", "c": ""}


async def test_denying_in_a_generation_raises_and_is_recorded():
    exchange = exchange_of(
        policy(PREFILL, Deny("at once"), condition="signals.margin < 1.0"),
        policy(MID, Deny("enough"), condition="signals.num_repetitions >= 3"),
    )

    with pytest.raises(HookDenied, match="at once"):
        await exchange.after_prefill(SIGNALS, choice=0)
    with pytest.raises(HookDenied, match="enough"):
        await exchange.mid_generation(window(), choice=0)

    assert [one.point for one in exchange.decisions] == [PREFILL, MID]


async def test_output_is_masked_and_may_end_the_answer():
    exchange = exchange_of(
        policy(OUTPUT, MaskText((TextTarget.CONTENT,), words=("secret",)), order=1),
        policy(OUTPUT, StopGeneration(), condition="has_word(output.folded, 'secret')", order=2),
    )
    output = OutputText(choice=0, content="a Secret thing", is_last=True)

    verdict = await exchange.before_output(output)

    assert verdict.edits == (TextEdit(TextTarget.CONTENT, 2, 8, "***"),)
    assert verdict.stop is StopReason.CONTENT_FILTER
    assert output.content == "a Secret thing"


@pytest.mark.parametrize("mode", [PolicyMode.ENFORCE, PolicyMode.OBSERVE])
async def test_a_mask_that_finds_nothing_is_no_decision(mode):
    observer = Observed()
    mask = MaskText((TextTarget.CONTENT,), words=("secret",))
    exchange = exchange_of(policy(OUTPUT, mask, mode=mode), observer=observer)

    for content in ("nothing", "a secret", "nothing"):
        await exchange.before_output(OutputText(choice=0, content=content))

    assert [decision.actions for decision in exchange.decisions] == [("mask_text",)]
    assert [firing.has_matched for firing in observer.firings] == [False, True, False]


async def test_the_most_that_any_policy_wants_is_held_back():
    exchange = exchange_of(policy(OUTPUT, Tag("x"), held_chars=10), policy(OUTPUT, Tag("y"), held_chars=99))

    assert exchange.held_chars == 99
    assert not exchange.only_observes_output
    assert exchange_of(policy(BEFORE, Tag("x"))).held_chars == 0


async def test_who_only_observes_holds_nothing_back():
    watching = policy(OUTPUT, Tag("x"), held_chars=500, mode=PolicyMode.OBSERVE)
    alone = exchange_of(watching)
    assert (alone.held_chars, alone.seen_chars, alone.only_observes_output) == (0, 500, True)
    beside = exchange_of(watching, policy(OUTPUT, Tag("y"), held_chars=7))
    assert (beside.held_chars, beside.seen_chars, beside.only_observes_output) == (7, 500, False)


async def test_points_without_policies_change_nothing():
    exchange = exchange_of(policy(TERMINAL, Tag("x")))
    view, output = chat("hi"), OutputText(choice=0, content="x")

    assert await exchange.before(view) is view
    assert await exchange.before_output(output) == OutputVerdict()
    assert await exchange.after_prefill(SIGNALS, choice=0) == await exchange.mid_generation(
        window(), choice=0
    )
    assert [exchange.wants(point) for point in HookPoint] == [False] * 5 + [True]
    assert exchange.window_rules == ()
    exchange.conclude(TerminalOutcome("success", 200))


async def test_a_capsule_has_its_id_or_a_new_one_and_an_impossible_id_is_dropped_and_recorded():
    given = exchange_of(policy(BEFORE, CapsuleMarker("cap-1", "nonce")))
    new = exchange_of(policy(BEFORE, CapsuleMarker()))
    impossible = exchange_of(policy(BEFORE, CapsuleMarker("a\r\nset-cookie: x"), AddSystemPrompt("s")))

    for exchange in (given, new):
        await exchange.before(chat("hi"))
    effective = await impossible.before(chat("hi"))

    assert given.capsule == ("cap-1", "nonce")
    assert new.capsule is not None
    assert len(new.capsule[0]) == 36
    assert impossible.capsule is None
    assert effective.messages[0].role == "system"
    assert impossible.decisions[0].result is DecisionResult.REFUSED


@pytest.mark.parametrize("capsule_id", ["", " ", "é", "a\nb", "\x00", "x" * 1001, " a", "a "])
async def test_no_capsule_has_an_id_that_is_no_header_value(capsule_id):
    exchange = exchange_of(policy(BEFORE, CapsuleMarker(capsule_id)))

    await exchange.before(chat("hi"))

    assert exchange.capsule is None


async def test_of_several_the_first_stop_and_the_last_capsule_and_tag_count():
    exchange = exchange_of(
        policy(BEFORE, CapsuleMarker("early"), Tag("t", "one")),
        policy(BEFORE, CapsuleMarker("late"), Tag("t", "two")),
        policy(MID, StopGeneration(StopReason.STOP)),
        policy(MID, StopGeneration(StopReason.CONTENT_FILTER)),
        policy(OUTPUT, CapsuleMarker("behind"), condition="output.is_last"),
    )

    await exchange.before(chat("hi"))
    assert (exchange.capsule, exchange.tags) == (("late", None), {"t": "two"})
    assert (await exchange.mid_generation(window(), choice=0)).stop is StopReason.STOP
    await exchange.before_output(OutputText(choice=0, content="a"))
    assert exchange.capsule == ("late", None)
    await exchange.before_output(OutputText(choice=0, content="b", is_last=True))
    assert exchange.capsule == ("behind", None)


async def test_decisions_are_bounded_and_the_first_ones_are_kept():
    exchange = exchange_of(policy(MID, InjectText("x")))

    for _ in range(decision_log.MAX_DECISIONS + 10):
        verdict = await exchange.mid_generation(window(), choice=0)

    assert len(exchange.decisions) == decision_log.MAX_DECISIONS
    assert verdict.decision_places == (decision_log.NOT_KEPT,)
    exchange.note_injection(decision_log.NOT_KEPT, num_injected=1, num_discarded=1)
    assert exchange.decisions[-1].num_injected_tokens == 0


@pytest.mark.parametrize("ending", ["denied", "stopped", "failed", "terminal"])
async def test_what_ended_a_request_is_recorded_however_much_was_decided_before(ending):
    end = {
        "denied": policy(OUTPUT, Deny("no")),
        "stopped": policy(OUTPUT, StopGeneration(StopReason.STOP)),
        "failed": policy(OUTPUT, Tag("t"), condition="request.metadata.nothing == 'x'"),
        "terminal": policy(TERMINAL, Tag("t")),
    }[ending]
    exchange = exchange_of(policy(MID, InjectText("x")), end)
    for _ in range(decision_log.MAX_DECISIONS + 10):
        await exchange.mid_generation(window(), choice=0)

    with contextlib.suppress(HookDenied, HookFailed):
        await exchange.before_output(OutputText(choice=0, content="a"))
    exchange.conclude(TerminalOutcome(kind="success", status=200))
    for _ in range(20):
        await asyncio.sleep(0)

    assert len(exchange.decisions) == decision_log.MAX_DECISIONS + 1
    assert exchange.decisions[-1].point is end.point


async def test_a_stream_that_ends_again_and_again_is_bounded_too():
    exchange = exchange_of(policy(MID, StopGeneration(StopReason.STOP)))

    for _ in range(decision_log.MAX_DECISIONS + decision_log.MAX_ENDINGS + 10):
        await exchange.mid_generation(window(), choice=0)

    assert len(exchange.decisions) == decision_log.MAX_DECISIONS + decision_log.MAX_ENDINGS


async def test_tags_are_bounded():
    exchange = exchange_of(policy(BEFORE, *[Tag(f"t{number}") for number in range(200)]))

    await exchange.before(chat("hi"))

    assert len(exchange.tags) == decision_log.MAX_TAGS


async def test_nothing_that_anybody_wrote_is_in_a_repr():
    exchange = exchange_of(policy(BEFORE, InjectText("swordfish")))

    await exchange.before(chat("swordfish"))

    assert "swordfish" not in f"{exchange!r}{exchange.decisions!r}"


async def test_policies_that_change_while_a_request_runs_hold_for_the_next_one():
    desk = desk_of(policy(BEFORE, Tag("old")))
    exchange = opened(desk)

    desk.replace(type(desk.policies).of([policy(BEFORE, Tag("new"))]))
    await exchange.before(chat("hi"))

    assert exchange.tags == {"old": ""}
    later = opened(desk)
    await later.before(chat("hi"))
    assert later.tags == {"new": ""}
