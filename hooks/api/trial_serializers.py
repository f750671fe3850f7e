"""Trials as the management API reads them, and what came of them as it shows it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.api.listing import IdField
from accounts.api.strict_serializer import StrictSerializer
from hooks.api.policy_serializers import LineField, PolicyRequest
from hooks.contracts.decisions import Decision, DecisionResult, Firing
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import OutputText, RequestView, TextPart
from hooks.services.policies import MAX_POLICIES
from hooks.services.trial import TrialResult, firings_decided
from hooks.services.trial_desk import ENDPOINTS

MAX_CALLS = 128
_OUTCOMES = ("success", "stream_completed", "error", "denied", "cancelled")


@extend_schema_field({"type": "object", "additionalProperties": True})
class BodyField(serializers.DictField):
    """As clients send it."""


class CallerSerializer(StrictSerializer):
    """One of the two; without either it is who tries."""

    user_id = IdField(required=False)
    key_id = IdField(required=False)


def _count() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, max_value=1_000_000, default=0)


class FirstTokenSerializer(StrictSerializer):
    entropy = serializers.FloatField(min_value=0, max_value=100, help_text="in nats")
    margin = serializers.FloatField(min_value=0, max_value=10_000, help_text="as a natural logarithm")


class WindowSerializer(StrictSerializer):
    num_decoded = _count()
    num_tokens = _count()
    mean_entropy = serializers.FloatField(default=0.0)
    max_entropy = serializers.FloatField(default=0.0)
    mean_margin = serializers.FloatField(default=0.0)
    min_margin = serializers.FloatField(default=0.0)
    num_high_entropy = _count()
    num_repetitions = _count()


class OutputSerializer(StrictSerializer):
    content = LineField(allow_blank=True, default="")
    reasoning = LineField(allow_blank=True, default="")
    arguments = serializers.ListField(
        child=LineField(allow_blank=True), max_length=MAX_CALLS, default=list, help_text="of tool calls"
    )


class OutcomeSerializer(StrictSerializer):
    kind = serializers.ChoiceField(choices=_OUTCOMES)
    status = serializers.IntegerField(min_value=100, max_value=599, default=200)
    message = LineField(allow_blank=True, default="")


class TrialRequest(StrictSerializer):
    """What is tried. A point of a generation is tried where what it would come with is given."""

    endpoint = serializers.ChoiceField(choices=ENDPOINTS, default="chat.completions")
    body = BodyField(help_text="the request as clients send it")
    caller = CallerSerializer(required=False)
    enforce = serializers.ListField(
        child=IdField(),
        max_length=MAX_POLICIES,
        default=list,
        help_text="policies that are tried as if they were enforced, whatever their mode",
    )
    draft = PolicyRequest(
        required=False, help_text="a policy that is not saved, tried as if it were enforced"
    )
    replaces = IdField(required=False, help_text="the policy whose place the draft takes")
    signals = FirstTokenSerializer(required=False)
    window = WindowSerializer(required=False)
    output = OutputSerializer(required=False)
    outcome = OutcomeSerializer(required=False)


class TrialFiringSerializer(serializers.Serializer):
    """One policy that was asked at one point."""

    point = serializers.ChoiceField(choices=[point.value for point in HookPoint])
    policy_id = serializers.IntegerField(help_text="0: the draft")
    policy = serializers.CharField()
    has_matched = serializers.BooleanField()
    result = serializers.ChoiceField(choices=[result.value for result in DecisionResult], allow_null=True)
    actions = serializers.ListField(child=serializers.CharField())
    reason = serializers.CharField()


class DenialSerializer(serializers.Serializer):
    status = serializers.IntegerField()
    code = serializers.CharField()
    message = serializers.CharField()
    policy = serializers.CharField()


class TrialPartSerializer(serializers.Serializer):
    type = serializers.ChoiceField(choices=["text", "image", "audio", "video"])
    text = serializers.CharField(required=False)
    url = serializers.CharField(required=False)


class TrialMessageSerializer(serializers.Serializer):
    role = serializers.CharField()
    parts = TrialPartSerializer(many=True)
    reasoning = serializers.CharField(allow_null=True)
    tool_arguments = serializers.ListField(child=serializers.CharField())
    is_added = serializers.BooleanField(help_text="by a policy")


class EffectiveSerializer(serializers.Serializer):
    """The request as generation would get it."""

    model = serializers.CharField()
    messages = TrialMessageSerializer(many=True)
    prompts = serializers.ListField(child=serializers.CharField(allow_null=True))
    parameters = serializers.DictField()


class InjectionSerializer(serializers.Serializer):
    text = serializers.CharField()
    is_shown = serializers.BooleanField()


class TrialSerializer(serializers.Serializer):
    """What would happen. `effective` is null where the request would be refused before it generates."""

    firings = TrialFiringSerializer(many=True)
    denial = DenialSerializer(allow_null=True)
    failed_policy = serializers.CharField(allow_null=True, help_text="that refuses because it failed")
    effective = EffectiveSerializer(allow_null=True)
    injections = InjectionSerializer(many=True, help_text="into the running generation")
    stop = serializers.CharField(allow_null=True, help_text="the finish reason, where it would be ended")
    output = OutputSerializer(allow_null=True)
    tags = serializers.DictField(child=serializers.CharField())
    webhook_ids = serializers.ListField(
        child=serializers.IntegerField(), help_text="that would have been called; a trial calls none"
    )


def signals_given(given: dict[str, Any]) -> FirstTokenSignals | None:
    return FirstTokenSignals(**given["signals"]) if "signals" in given else None


def window_given(given: dict[str, Any]) -> WindowSignals | None:
    return WindowSignals(**given["window"]) if "window" in given else None


def output_given(given: dict[str, Any]) -> OutputText | None:
    if "output" not in given:
        return None
    said = given["output"]
    return OutputText(
        choice=0,
        content=said["content"],
        reasoning=said["reasoning"],
        arguments=dict(enumerate(said["arguments"])),
        is_last=True,
    )


def outcome_given(given: dict[str, Any]) -> TerminalOutcome | None:
    return TerminalOutcome(**given["outcome"]) if "outcome" in given else None


def trial_shown(result: TrialResult) -> Any:
    denial, output = result.denial, result.output
    return {
        "firings": [_firing(firing, decision) for firing, decision in firings_decided(result)],
        "denial": None
        if denial is None
        else {
            "status": denial.status,
            "code": denial.code,
            "message": denial.message,
            "policy": denial.policy,
        },
        "failed_policy": result.failed_policy,
        "effective": None if result.effective is None else _effective(result.effective),
        "injections": [{"text": one.text, "is_shown": one.is_shown} for one in result.injections],
        "stop": None if result.stop is None else result.stop.value,
        "output": None
        if output is None
        else {
            "content": output.content,
            "reasoning": output.reasoning,
            "arguments": [output.arguments[call] for call in sorted(output.arguments)],
        },
        "tags": dict(result.tags),
        "webhook_ids": list(result.webhook_ids),
    }


def _firing(firing: Firing, decision: Decision | None) -> dict[str, Any]:
    return {
        "point": firing.point.value,
        "policy_id": firing.policy_id,
        "policy": firing.policy,
        "has_matched": firing.has_matched,
        "result": None if firing.result is None else firing.result.value,
        "actions": [] if decision is None else list(decision.actions),
        "reason": "" if decision is None else decision.reason,
    }


def _effective(view: RequestView) -> dict[str, Any]:
    return {
        "model": view.model,
        "messages": [
            {
                "role": message.role,
                "parts": [
                    {"type": "text", "text": part.text}
                    if isinstance(part, TextPart)
                    else {"type": part.sort.value, "url": part.url}
                    for part in message.parts
                ],
                "reasoning": message.reasoning,
                "tool_arguments": list(message.tool_arguments),
                "is_added": message.place is None,
            }
            for message in view.messages
        ],
        "prompts": list(view.prompts),
        "parameters": dict(view.parameters),
    }
