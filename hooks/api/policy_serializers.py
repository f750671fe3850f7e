"""Policies as the management API writes and reads them.

Actions and window rules have a form of their own (hooks/action_form), which refuses what is wrong by the
same paths as serializers do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.api.listing import IdField, PageQuery
from accounts.api.strict_serializer import StrictSerializer
from hooks.action_form import MAX_ACTIONS, action_schema, actions_read
from hooks.action_form.window import window_read, window_schema
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, Policy, PolicyMode, PolicyScope
from hooks.models import HookPolicy
from hooks.models.policy import MAX_MODEL_ID_LENGTH, MAX_NAME_LENGTH, MAX_SCOPE_IDS
from hooks.services.columns import policy_or_fault
from hooks.services.policies import MAX_POLICIES

_MODES = [mode.value for mode in PolicyMode]
_POINTS = [point.value for point in HookPoint]
_FAILURE_RULES = [rule.value for rule in FailureRule]


class LineField(serializers.CharField):
    """A text as it was written, spaces and all."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)


@extend_schema_field({"type": "array", "items": action_schema(), "maxItems": MAX_ACTIONS})
class ActionsField(serializers.JSONField):
    """As JSON has it; it is read when the point is known."""


@extend_schema_field(window_schema())
class WindowField(serializers.JSONField):
    """As JSON has it."""


def _ids(child: serializers.Field) -> serializers.ListField:
    return serializers.ListField(child=child, max_length=MAX_SCOPE_IDS, required=False)


class ScopeSerializer(StrictSerializer):
    """Whose requests a policy is for: what is empty does not limit, the others must all hold. In a change,
    what is left out stays as it is."""

    team_ids = _ids(IdField())
    user_ids = _ids(IdField())
    key_ids = _ids(IdField())
    models = _ids(LineField(max_length=MAX_MODEL_ID_LENGTH))


class PolicySerializer(serializers.Serializer):
    """A row; `missing` is given along in the context, by the row's id."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    description = serializers.CharField()
    order = serializers.IntegerField()
    mode = serializers.ChoiceField(choices=_MODES)
    is_required = serializers.BooleanField()
    scope = serializers.SerializerMethodField()
    point = serializers.ChoiceField(choices=_POINTS)
    condition = serializers.CharField()
    actions = ActionsField()
    deadline_s = serializers.FloatField()
    on_failure = serializers.ChoiceField(choices=_FAILURE_RULES)
    window = WindowField(help_text="only what differs from the usual rule")
    held_chars = serializers.IntegerField()
    revision = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    fault = serializers.SerializerMethodField(
        help_text="why the row cannot be read, if somebody wrote it past the checks; else empty"
    )
    missing = serializers.SerializerMethodField(
        help_text="what its scope names and there is not, or no more, as field and id"
    )

    @extend_schema_field(ScopeSerializer())
    def get_scope(self, row: HookPolicy) -> dict[str, Any]:
        return {
            "team_ids": row.team_ids,
            "user_ids": row.user_ids,
            "key_ids": row.key_ids,
            "models": row.model_ids,
        }

    def get_fault(self, row: HookPolicy) -> str:
        return policy_or_fault(row).fault

    def get_missing(self, row: HookPolicy) -> list[str]:
        found: list[str] = self.context.get("missing", {}).get(row.pk, [])
        return found


class PolicyChange(StrictSerializer):
    """What is left out stays as it is; actions and window rule are replaced as a whole."""

    name = LineField(max_length=MAX_NAME_LENGTH, required=False)
    description = LineField(allow_blank=True, required=False)
    order = serializers.IntegerField(required=False, help_text="lower ones are applied first")
    mode = serializers.ChoiceField(choices=_MODES, required=False)
    is_required = serializers.BooleanField(
        required=False, help_text="false: only for requests that ask for it with skippy_hooks"
    )
    scope = ScopeSerializer(required=False)
    point = serializers.ChoiceField(choices=_POINTS, required=False)
    condition = LineField(
        allow_blank=True, required=False, help_text="a CEL expression of type bool; empty: always"
    )
    actions = ActionsField(required=False)
    deadline_s = serializers.FloatField(required=False)
    on_failure = serializers.ChoiceField(choices=_FAILURE_RULES, required=False)
    window = WindowField(required=False)
    held_chars = serializers.IntegerField(required=False)


class PolicyRequest(PolicyChange):
    """A policy to be added."""

    name = LineField(max_length=MAX_NAME_LENGTH)
    point = serializers.ChoiceField(choices=_POINTS)
    actions = ActionsField()


class PolicyQuery(PageQuery):
    name = LineField(max_length=MAX_NAME_LENGTH, required=False)
    mode = serializers.ChoiceField(choices=_MODES, required=False)
    point = serializers.ChoiceField(choices=_POINTS, required=False)


class OrderRequest(StrictSerializer):
    ids = serializers.ListField(
        child=IdField(), max_length=2 * MAX_POLICIES, help_text="every policy, in the order wanted"
    )


class ExamplesRequest(StrictSerializer):
    webhook_id = IdField(required=False, help_text="whom those call that call one; else they are left out")


def policy_written(given: dict[str, Any], *, policy_id: int = 0) -> Policy:
    """What a `PolicyRequest` read. Raises InvalidField."""
    blank = Policy(policy_id=policy_id, name=given["name"], point=HookPoint(given["point"]), actions=())
    return policy_changed(blank, given)


def policy_changed(policy: Policy, given: dict[str, Any]) -> Policy:
    """`policy` with what a `PolicyChange` read. Raises InvalidField."""
    plain = ("name", "order", "is_required", "condition", "deadline_s", "held_chars")
    changed: dict[str, Any] = {name: given[name] for name in plain if name in given}
    if "mode" in given:
        changed["mode"] = PolicyMode(given["mode"])
    if "on_failure" in given:
        changed["on_failure"] = FailureRule(given["on_failure"])
    point = changed["point"] = HookPoint(given.get("point", policy.point))
    if "actions" in given:
        changed["actions"] = actions_read(given["actions"], point=point)
    if "window" in given:
        changed["window"] = window_read(given["window"])
    if "scope" in given:
        scope = policy.scope
        changed["scope"] = PolicyScope(
            team_ids=frozenset(given["scope"].get("team_ids", scope.team_ids)),
            user_ids=frozenset(given["scope"].get("user_ids", scope.user_ids)),
            key_ids=frozenset(given["scope"].get("key_ids", scope.key_ids)),
            models=frozenset(given["scope"].get("models", scope.models)),
        )
    return replace(policy, **changed)
