"""From the rows' columns to the words that whoever obeys them reads, and back."""

from __future__ import annotations

from dataclasses import replace

from hooks.action_form import action_written, actions_read
from hooks.action_form.window import window_read, window_written
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, Policy, PolicyMode, PolicyScope
from hooks.contracts.refusals import HookRefusal, InvalidField
from hooks.contracts.signals import WindowRule
from hooks.models import HookPolicy
from hooks.services.policy_checks import check_condition

# All that policy_update writes.
WRITTEN_COLUMNS = (
    "name",
    "description",
    "order",
    "mode",
    "is_required",
    "team_ids",
    "user_ids",
    "key_ids",
    "model_ids",
    "point",
    "condition",
    "actions",
    "deadline_s",
    "on_failure",
    "window",
    "held_chars",
)


def policy_of(row: HookPolicy) -> Policy:
    """What a row says. Raises InvalidField where that is nothing that could have been saved."""
    point = HookPoint(row.point)
    return Policy(
        policy_id=row.pk,
        name=row.name,
        point=point,
        actions=actions_read(row.actions, point=point),
        condition=row.condition,
        order=row.order,
        mode=PolicyMode(row.mode),
        is_required=row.is_required,
        scope=_scope_of(row),
        deadline_s=row.deadline_s,
        on_failure=FailureRule(row.on_failure),
        window=window_read(row.window) if row.window else WindowRule(),
        held_chars=row.held_chars,
    )


def policy_or_fault(row: HookPolicy) -> Policy:
    """What a row says, its condition tried; a row that somebody wrote past the checks becomes a policy with
    a fault, which refuses requests if it is required and lets them pass if it is not."""
    try:
        policy = policy_of(row)
        check_condition(policy.condition, point=policy.point)
    except HookRefusal as refusal:
        return _with_fault(row, refusal.message)
    except ValueError as problem:
        return _with_fault(row, f"The row cannot be read ({type(problem).__name__}).")
    return policy


def write_columns(row: HookPolicy, policy: Policy, *, description: str) -> None:
    """Put what `policy` says into the row; not saved."""
    row.name = policy.name
    row.description = description
    row.order = policy.order
    row.mode = policy.mode.value
    row.is_required = policy.is_required
    row.team_ids = sorted(policy.scope.team_ids)
    row.user_ids = sorted(policy.scope.user_ids)
    row.key_ids = sorted(policy.scope.key_ids)
    row.model_ids = sorted(policy.scope.models)
    row.point = policy.point.value
    row.condition = policy.condition
    row.actions = [action_written(action) for action in policy.actions]
    row.deadline_s = policy.deadline_s
    row.on_failure = policy.on_failure.value
    row.window = {} if policy.window == WindowRule() else window_written(policy.window)
    row.held_chars = policy.held_chars


def _scope_of(row: HookPolicy) -> PolicyScope:
    for field, ids in (
        ("scope.team_ids", row.team_ids),
        ("scope.user_ids", row.user_ids),
        ("scope.key_ids", row.key_ids),
        ("scope.models", row.model_ids),
    ):
        # A caller without a team would be one of the team NULL.
        if None in ids:
            raise InvalidField(field, "an id is needed")
    return PolicyScope(
        team_ids=frozenset(row.team_ids),
        user_ids=frozenset(row.user_ids),
        key_ids=frozenset(row.key_ids),
        models=frozenset(row.model_ids),
    )


def _with_fault(row: HookPolicy, fault: str) -> Policy:
    """As much of the row as can be told; where in doubt, it is for more requests rather than for fewer."""
    policy = Policy(
        policy_id=row.pk,
        name=row.name,
        point=HookPoint.BEFORE,
        actions=(),
        order=row.order,
        mode=PolicyMode(row.mode),
        is_required=row.is_required,
        on_failure=FailureRule.CLOSED if row.is_required else FailureRule.OPEN,
        fault=fault,
    )
    try:
        return replace(policy, scope=_scope_of(row))
    except InvalidField:
        return policy
