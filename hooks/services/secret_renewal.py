"""Secrets of webhooks under the service's present key, so that the key before can be forgotten."""

from __future__ import annotations

from accounts.history import change_add
from accounts.secret_renewal import RENEWED_CHANGES, SecretRenewal
from hooks.models import Webhook
from hooks.models.webhook import WEBHOOK_KIND
from hooks.secrets import SecretUnreadable
from hooks.services.announcement import hooks_changing
from hooks.services.secret_box import secret_box


def webhook_secrets_reencrypt() -> SecretRenewal:
    """Encrypt anew what was encrypted with a former key. May be repeated, and run while the service does: the
    secrets stay what they are, and who has the former key beside the present one reads either. Names are
    webhooks'."""
    renewed: list[str] = []
    unreadable: list[str] = []
    num_current = 0
    with hooks_changing():
        box = secret_box()
        for row in Webhook.objects.order_by("pk"):
            try:
                sealed = box.sealed_anew(row.secret_encrypted, owner=row.name)
            except SecretUnreadable:
                unreadable.append(row.name)
                continue
            if sealed is None:
                num_current += 1
                continue
            # Not by `save`: the history would tell of another secret.
            Webhook.objects.filter(pk=row.pk).update(secret_encrypted=sealed)
            change_add(
                kind=WEBHOOK_KIND,
                subject_id=row.pk,
                label=row.name,
                changes=RENEWED_CHANGES,
            )
            renewed.append(row.name)
    return SecretRenewal(tuple(renewed), tuple(unreadable), num_current)
