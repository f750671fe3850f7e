"""Reading policies and webhooks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hooks.contracts.policies import Policy, PolicyMode, PolicyScope
from hooks.contracts.refusals import HookRefusal, NotThere
from hooks.contracts.snapshots import PolicySnapshot
from hooks.contracts.webhook_settings import WebhookSettings
from hooks.models import HookPolicy, Webhook
from hooks.secrets import SecretUnreadable
from hooks.services.columns import policy_or_fault
from hooks.services.scope_directory import scope_directory, scope_missing
from hooks.services.secret_box import secret_box
from hooks.services.trial import policies_enforced
from hooks.services.webhook_columns import settings_of

_log = logging.getLogger(__name__)


def policy_snapshot_read() -> PolicySnapshot:
    """All policies that are not off, in the order in which they are applied, and all webhooks that can be
    called."""
    rows = HookPolicy.objects.exclude(mode=PolicyMode.OFF.value).order_by("order", "pk")
    return PolicySnapshot(tuple([policy_or_fault(row) for row in rows]), _webhooks_read())


def policies_for_trial(*, enforced: frozenset[int]) -> tuple[Policy, ...]:
    """Those that are on as they are, and those of these ids enforced, whatever their mode. An id that there
    is not is passed over."""
    return policies_enforced([policy_or_fault(row) for row in HookPolicy.objects.all()], enforced)


def policy_names() -> dict[int, str]:
    """Of all there are, by their ids, in the order in which they are applied."""
    return dict(HookPolicy.objects.order_by("order", "pk").values_list("pk", "name"))


def webhooks_told() -> list[str]:
    """Each webhook with what its rights say is sent to it, for people. Not its URL, which may be a secret."""
    told = []
    for row in Webhook.objects.order_by("name"):
        parts = ", ".join(row.parts) or "nothing of the request"
        told.append(f"to {row.name} {parts}")
    return told


def policies_missing(rows: Sequence[HookPolicy]) -> list[tuple[HookPolicy, list[str]]]:
    """Each row with what its scope names in vain, as "scope.models: tiny": a model that has another id now,
    a team that is gone. A fixed number of queries for however many rows."""
    everybody = PolicyScope(
        team_ids=frozenset([one for row in rows for one in row.team_ids if one is not None]),
        user_ids=frozenset([one for row in rows for one in row.user_ids if one is not None]),
        key_ids=frozenset([one for row in rows for one in row.key_ids if one is not None]),
        models=frozenset([one for row in rows for one in row.model_ids if one is not None]),
    )
    missing = scope_missing(everybody, scope_directory())
    return [
        (row, [f"{field}: {one}" for field, one in missing if one in _column(row, field)]) for row in rows
    ]


def policy_named(name: str) -> HookPolicy:
    """Raises NotThere."""
    found: HookPolicy | None = HookPolicy.objects.filter(name=_comparable(name)).first()
    if found is None:
        raise NotThere(None, "there is no policy of this name")
    return found


def webhook_named(name: str) -> Webhook:
    """Raises NotThere."""
    found: Webhook | None = Webhook.objects.filter(name=_comparable(name)).first()
    if found is None:
        raise NotThere(None, "there is no webhook of this name")
    return found


def _comparable(name: str) -> str:
    """What the database could not compare is no name either."""
    return name.encode("utf-8", "replace").decode().replace("\0", "?")


def _column(row: HookPolicy, field: str) -> list[int] | list[str]:
    columns: dict[str, list[int] | list[str]] = {
        "scope.team_ids": row.team_ids,
        "scope.user_ids": row.user_ids,
        "scope.key_ids": row.key_ids,
        "scope.models": row.model_ids,
    }
    return columns[field]


def _webhooks_read() -> dict[int, WebhookSettings]:
    box, found = secret_box(), {}
    for row in Webhook.objects.order_by("pk"):
        try:
            secret = box.open(row.secret_encrypted, owner=row.name)
            found[row.pk] = settings_of(row, secret=secret)
        except SecretUnreadable as problem:
            _log.error("%s", problem)
        except HookRefusal as refusal:
            _log.error("webhook %r cannot be read: %s", row.name, refusal.message)
    return found
