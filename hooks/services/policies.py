"""Changing policies. Writers take turns; processes that serve see a change within seconds.

What is refused is a HookRefusal: InvalidField and AlreadyTaken name the field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.utils import timezone

from hooks.contracts.actions import CallWebhook
from hooks.contracts.policies import Policy, PolicyMode, PolicyScope
from hooks.contracts.refusals import AlreadyTaken, InvalidField, NotThere
from hooks.examples import SHIPPED
from hooks.models import HookPolicy, Webhook
from hooks.services.announcement import hooks_changed, hooks_changing
from hooks.services.columns import WRITTEN_COLUMNS, policy_of, write_columns
from hooks.services.policy_checks import check_policy
from hooks.services.scope_directory import scope_directory, scope_missing

MAX_POLICIES = 500
# Between neighbours that were put in order, so that others can be put between them.
ORDER_STEP = 10


def policy_get(*, policy_id: int) -> HookPolicy:
    """As it is now. Raises NotThere."""
    found: HookPolicy | None = HookPolicy.objects.filter(pk=policy_id).first()
    if found is None:
        raise NotThere(None, "there is no such policy")
    return found


def policy_check(*, policy: Policy, description: str, before: HookPolicy | None) -> None:
    """Whether this could be written now, as a new row or over `before`; for forms, which show what is wrong
    before anything is done. Raises InvalidField and AlreadyTaken.

    Whom the row named already is not looked up again: a policy is changed also when one of its teams is
    gone.
    """
    check_policy(policy, description=description)
    _check_scope(policy.scope, before)
    _check_webhooks(policy)
    others = HookPolicy.objects.exclude(pk=None if before is None else before.pk)
    if others.filter(name=policy.name).exists():
        raise AlreadyTaken("name", "another policy has it")
    if before is None and others.count() >= MAX_POLICIES:
        raise AlreadyTaken(None, f"there are at most {MAX_POLICIES} policies")


def policy_create(*, policy: Policy, description: str = "") -> HookPolicy:
    """A new row; its id is not taken from `policy`."""
    with hooks_changing():
        policy_check(policy=policy, description=description, before=None)
        row = HookPolicy()
        write_columns(row, policy, description=description)
        row.save(force_insert=True)
        hooks_changed()
        return row


def policy_update(*, policy: Policy, description: str) -> HookPolicy:
    """Make the row of `policy.policy_id` say what `policy` says. Nothing happens where it does already.
    Raises NotThere."""
    with hooks_changing():
        row = policy_get(policy_id=policy.policy_id)
        policy_check(policy=policy, description=description, before=row)
        old = [getattr(row, name) for name in WRITTEN_COLUMNS]
        write_columns(row, policy, description=description)
        if [getattr(row, name) for name in WRITTEN_COLUMNS] != old:
            _save(row)
            hooks_changed()
        return row


def policy_set_mode(*, policy_id: int, mode: PolicyMode) -> HookPolicy:
    """Switch a policy. One whose row cannot be read is only switched off. Raises NotThere, InvalidField."""
    with hooks_changing():
        row = policy_get(policy_id=policy_id)
        if mode is not PolicyMode.OFF:
            check_policy(policy_of(row), description=row.description)
        if row.mode != mode.value:
            row.mode = mode.value
            _save(row)
            hooks_changed()
        return row


def policies_reorder(*, policy_ids: Sequence[int]) -> None:
    """Put all policies in this order. Raises InvalidField where one is missing, there twice, or gone: the
    order was then made from a list that is not the one there is now."""
    with hooks_changing():
        rows = {row.pk: row for row in HookPolicy.objects.all()}
        if len(set(policy_ids)) != len(policy_ids) or set(policy_ids) != rows.keys():
            raise InvalidField("ids", "name every policy, and each once")
        for place, policy_id in enumerate(policy_ids, start=1):
            row = rows[policy_id]
            if row.order != place * ORDER_STEP:
                row.order = place * ORDER_STEP
                _save(row)
        hooks_changed()


def policy_delete(*, policy_id: int) -> None:
    """Remove a policy for ever; the history keeps what it said. Raises NotThere."""
    with hooks_changing():
        policy_get(policy_id=policy_id).delete()
        hooks_changed()


def policies_add_examples(*, webhook_id: int | None = None) -> list[HookPolicy]:
    """The shipped examples whose names are not there yet, all of them off. Those that call a webhook are
    made only with one."""
    with hooks_changing():
        there = set(HookPolicy.objects.values_list("name", flat=True))
        return [
            policy_create(policy=_with_webhook(example.policy, webhook_id), description=example.description)
            for example in SHIPPED
            if example.policy.name not in there and not (example.needs_webhook and webhook_id is None)
        ]


def _with_webhook(policy: Policy, webhook_id: int | None) -> Policy:
    """An example off, and with a webhook where it calls one."""
    actions = tuple(
        [
            CallWebhook(webhook_id) if isinstance(action, CallWebhook) and webhook_id is not None else action
            for action in policy.actions
        ]
    )
    return replace(policy, actions=actions, mode=PolicyMode.OFF)


def _save(row: HookPolicy) -> None:
    row.revision += 1
    row.updated_at = timezone.now()
    row.save(update_fields=[*WRITTEN_COLUMNS, "revision", "updated_at"])


def _check_scope(scope: PolicyScope, before: HookPolicy | None) -> None:
    added = scope
    if before is not None:
        added = PolicyScope(
            team_ids=scope.team_ids - set(before.team_ids),
            user_ids=scope.user_ids - set(before.user_ids),
            key_ids=scope.key_ids - set(before.key_ids),
            models=scope.models - set(before.model_ids),
        )
    for field, one in scope_missing(added, scope_directory()):
        raise InvalidField(field, f"there is none with the id {one!r}")


def _check_webhooks(policy: Policy) -> None:
    for place, action in enumerate(policy.actions):
        if isinstance(action, CallWebhook) and not Webhook.objects.filter(pk=action.webhook_id).exists():
            raise InvalidField(f"actions[{place}].webhook_id", "there is no such webhook")
