"""Commands about policies: what goes wrong is one sentence on stderr and exit status 1, not a traceback."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from accounts.management.accounts_command import AccountsCommand
from hooks.contracts.refusals import HookRefusal
from hooks.models import HookPolicy
from hooks.services.columns import policy_or_fault


class HooksCommand(AccountsCommand):
    """Turns what services and selectors raise into Django's CommandError."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except HookRefusal as refusal:
            raise CommandError(refusal.message) from None


def policy_summary(row: HookPolicy) -> dict[str, object]:
    """What commands print of a policy as JSON, by the names of /api/hook-policies."""
    return {
        "id": row.pk,
        "name": row.name,
        "description": row.description,
        "order": row.order,
        "mode": row.mode,
        "is_required": row.is_required,
        "scope": {
            "team_ids": row.team_ids,
            "user_ids": row.user_ids,
            "key_ids": row.key_ids,
            "models": row.model_ids,
        },
        "point": row.point,
        "condition": row.condition,
        "actions": row.actions,
        "deadline_s": row.deadline_s,
        "on_failure": row.on_failure,
        "window": row.window,
        "held_chars": row.held_chars,
        "revision": row.revision,
        "fault": policy_or_fault(row).fault,
    }
