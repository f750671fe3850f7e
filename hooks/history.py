"""Policies and webhooks in the history of changes."""

from __future__ import annotations

from accounts.audit import AuditedModel, audit
from hooks.models import HookPolicy, Webhook
from hooks.models.policy import POLICY_KIND
from hooks.models.webhook import WEBHOOK_KIND


def audit_hooks() -> None:
    """Listen to the rows of policies and of webhooks."""
    own = frozenset({"revision", "created_at", "updated_at"})
    audit(HookPolicy, AuditedModel(POLICY_KIND, label=str, left_out=own))
    # The path of an address often is a secret, too: who may read the history need not know it.
    audit(
        Webhook,
        AuditedModel(WEBHOOK_KIND, label=str, left_out=own, secret=frozenset({"secret_encrypted", "url"})),
    )
