"""Changing webhooks. Writers take turns with those of policies; processes see a change within seconds.

A secret comes in here and is given to nobody; rows have it encrypted, and other doors can only replace it.
"""

from __future__ import annotations

from django.utils import timezone

from hooks.contracts.refusals import AlreadyTaken, NotThere
from hooks.contracts.webhook_settings import WebhookSettings
from hooks.models import HookPolicy, Webhook
from hooks.services.announcement import hooks_changed, hooks_changing
from hooks.services.secret_box import secret_box
from hooks.services.webhook_checks import check_secret, check_webhook
from hooks.services.webhook_columns import WRITTEN_COLUMNS, write_columns

MAX_WEBHOOKS = 100


def webhook_get(*, webhook_id: int) -> Webhook:
    """As it is now. Raises NotThere."""
    found: Webhook | None = Webhook.objects.filter(pk=webhook_id).first()
    if found is None:
        raise NotThere(None, "there is no such webhook")
    return found


def webhook_check(
    *, settings: WebhookSettings, description: str, secret: str | None, before: Webhook | None
) -> None:
    """Whether this could be written now, as a new row or over `before`. Raises InvalidField, AlreadyTaken."""
    check_webhook(settings, description=description)
    if secret is not None or before is None:
        check_secret(secret or "")
    others = Webhook.objects.exclude(pk=None if before is None else before.pk)
    if others.filter(name=settings.name).exists():
        raise AlreadyTaken("name", "another webhook has it")
    if before is None and others.count() >= MAX_WEBHOOKS:
        raise AlreadyTaken(None, f"there are at most {MAX_WEBHOOKS} webhooks")


def webhook_create(*, settings: WebhookSettings, description: str = "") -> Webhook:
    """A new row, with `settings.secret`; its id is not taken from `settings`."""
    with hooks_changing():
        webhook_check(settings=settings, description=description, secret=settings.secret, before=None)
        row = Webhook()
        write_columns(row, settings, description=description)
        row.secret_encrypted = secret_box().seal(settings.secret)
        row.save(force_insert=True)
        hooks_changed()
        return row


def webhook_update(*, settings: WebhookSettings, description: str, secret: str | None = None) -> Webhook:
    """Make the row of `settings.webhook_id` say what `settings` say; with `secret`, that is the new one, and
    `settings.secret` is not looked at. Nothing happens where the row says it already. Raises NotThere."""
    with hooks_changing():
        row = webhook_get(webhook_id=settings.webhook_id)
        webhook_check(settings=settings, description=description, secret=secret, before=row)
        old = [getattr(row, name) for name in WRITTEN_COLUMNS]
        write_columns(row, settings, description=description)
        if secret is not None:
            row.secret_encrypted = secret_box().seal(secret)
        if secret is not None or [getattr(row, name) for name in WRITTEN_COLUMNS] != old:
            row.revision += 1
            row.updated_at = timezone.now()
            row.save(update_fields=[*WRITTEN_COLUMNS, "secret_encrypted", "revision", "updated_at"])
            hooks_changed()
        return row


def webhook_delete(*, webhook_id: int) -> None:
    """Remove a webhook and its secret for ever. Raises NotThere, and AlreadyTaken while a policy calls it."""
    with hooks_changing():
        row = webhook_get(webhook_id=webhook_id)
        for policy in HookPolicy.objects.filter(actions__contains=[{"webhook_id": webhook_id}])[:1]:
            raise AlreadyTaken(None, f"the policy {policy.name!r} calls it")
        row.delete()
        hooks_changed()
