"""Trying a request: what would happen is told, and nothing of it happens."""

from __future__ import annotations

from dataclasses import replace

from hooks.contracts.actions import (
    CallWebhook,
    ClampParameter,
    Deny,
    InjectText,
    MaskText,
    StopGeneration,
    StopReason,
    Tag,
    TextTarget,
)
from hooks.contracts.decisions import DecisionResult
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, PolicyMode, PolicyScope
from hooks.contracts.signals import FirstTokenSignals
from hooks.contracts.view import OutputText
from hooks.services.trial import Trial, policies_enforced, policy_try
from tests.hook_parts import CALLER, chat, policy, window

BEFORE, PREFILL, MID, OUTPUT, TERMINAL = (
    HookPoint.BEFORE,
    HookPoint.AFTER_PREFILL,
    HookPoint.MID_GENERATION,
    HookPoint.OUTPUT,
    HookPoint.TERMINAL,
)
UNSURE = FirstTokenSignals(entropy=5.0, margin=0.01)


def trial(text: str = "hello", **members: object) -> Trial:
    made = Trial(caller=CALLER, model="small", request=chat(text, parameters={"max_tokens": 900}))
    return replace(made, **members)  # type: ignore[arg-type]


async def test_without_a_policy_everything_goes_out_as_it_came():
    asked = trial(output=OutputText(0, "text"))
    result = await policy_try(trial=asked, policies=())

    assert (result.effective, result.output, result.firings) == (asked.request, asked.output, ())


async def test_all_that_were_asked_are_told_matching_or_not():
    matching = policy(BEFORE, ClampParameter("max_tokens", maximum=10), Tag("clamped"))
    other = policy(BEFORE, Deny("no"), condition='text.input.contains("bomb")')
    observed = policy(BEFORE, Deny("no"), mode=PolicyMode.OBSERVE)

    result = await policy_try(trial=trial(), policies=(matching, other, observed))

    told = {one.policy_id: (one.has_matched, one.result) for one in result.firings}
    assert told == {
        matching.policy_id: (True, DecisionResult.APPLIED),
        other.policy_id: (False, None),
        observed.policy_id: (True, DecisionResult.OBSERVED),
    }
    assert result.effective is not None
    assert result.effective.parameters["max_tokens"] == 10
    assert result.tags == {"clamped": ""}
    assert result.denial is None


async def test_a_denial_ends_it_and_its_end_is_tried():
    ended = policy(TERMINAL, Tag("ended"), condition='outcome.kind == "denied"')
    result = await policy_try(
        trial=trial(first_token=UNSURE, output=OutputText(0, "text")),
        policies=(policy(BEFORE, Deny("no", status=451), name="p"), policy(PREFILL, Tag("later")), ended),
    )

    assert result.denial is not None
    assert (result.denial.status, result.denial.message, result.denial.policy) == (451, "no", "p")
    assert (result.effective, result.output) == (None, None)
    assert result.tags == {"ended": ""}
    assert {one.point for one in result.firings} == {BEFORE, TERMINAL}


async def test_the_points_of_a_generation_are_tried_with_what_is_said_of_them():
    policies = (
        policy(PREFILL, InjectText("I am not sure."), condition="signals.entropy > 3.0"),
        policy(MID, StopGeneration(StopReason.STOP), condition="signals.num_repetitions >= 3"),
        policy(OUTPUT, MaskText((TextTarget.CONTENT, TextTarget.ARGUMENTS), words=("secret",))),
    )
    nothing = await policy_try(trial=trial(), policies=policies)
    assert nothing.firings == ()

    output = OutputText(0, "a secret, a secret", arguments={0: '{"a":"secret"}'}, is_last=True)
    result = await policy_try(
        trial=trial(first_token=UNSURE, window=window(), output=output), policies=policies
    )

    assert [one.text for one in result.injections] == ["I am not sure."]
    assert result.stop is StopReason.STOP
    assert result.output is not None
    assert result.output.content == "a ***, a ***"
    assert dict(result.output.arguments) == {0: '{"a":"***"}'}


async def test_webhooks_are_not_called_and_told():
    result = await policy_try(trial=trial(), policies=(policy(BEFORE, CallWebhook(7), Tag("asked")),))

    assert result.webhook_ids == (7,)
    assert result.tags == {"asked": ""}


async def test_a_policy_that_cannot_be_evaluated_fails_as_in_earnest():
    broken = policy(BEFORE, fault="its actions are none", name="odd")
    closed = await policy_try(trial=trial(), policies=(broken,))
    assert closed.failed_policy == "odd"
    assert closed.effective is None
    opened = await policy_try(trial=trial(), policies=(replace(broken, on_failure=FailureRule.OPEN),))
    assert opened.failed_policy is None
    assert opened.decisions[0].result is DecisionResult.FAILED_OPEN


async def test_scope_and_opting_in_are_those_of_the_request():
    optional = policy(BEFORE, Tag("optional"), is_required=False)
    elsewhere = policy(BEFORE, Tag("elsewhere"), scope=PolicyScope(models=frozenset({"large"})))

    assert (await policy_try(trial=trial(), policies=(optional, elsewhere))).firings == ()
    asked = trial(request=chat("hello", opts_in=True))
    assert (await policy_try(trial=asked, policies=(optional, elsewhere))).tags == {"optional": ""}


def test_those_that_are_tried_are_enforced_whatever_their_mode():
    off, watched = policy(BEFORE, mode=PolicyMode.OFF), policy(BEFORE, mode=PolicyMode.OBSERVE)
    other = policy(BEFORE, mode=PolicyMode.OFF)

    found = policies_enforced((off, watched, other), frozenset({off.policy_id}))

    assert [(one.policy_id, one.mode) for one in found] == [
        (off.policy_id, PolicyMode.ENFORCE),
        (watched.policy_id, PolicyMode.OBSERVE),
    ]


def test_nothing_that_was_written_is_shown():
    assert "hello" not in repr(trial())
