"""What a webhook must be before it is saved, with the field at fault in each refusal.

Where its address leads to is looked at when it is called (hooks/webhooks): names may lead elsewhere by then.
"""

from __future__ import annotations

import math
import re

from django.conf import settings

from hooks.contracts.actions import CallWebhook
from hooks.contracts.refusals import InvalidField
from hooks.contracts.webhook_settings import (
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_IN_FLIGHT,
    MAX_RETRIES,
    MAX_WEBHOOK_DEADLINE_S,
    MIN_SECRET_CHARS,
    MIN_WEBHOOK_DEADLINE_S,
    WebhookSettings,
)
from hooks.models.webhook import MAX_URL_LENGTH
from hooks.outbound.addresses import AddressRefused
from hooks.services.policy_checks import check_description, check_name
from hooks.webhooks.caller import webhook_address

MAX_SECRET_CHARS = 1000
_NOT_IN_SECRETS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_webhook(webhook: WebhookSettings, *, description: str) -> None:
    """All but the secret. Raises InvalidField."""
    check_name(webhook.name)
    check_description(description)
    check_url(webhook.url, allows_private=webhook.allows_private)
    if CallWebhook in webhook.rights.actions:
        raise InvalidField("actions", "a webhook's answer calls no webhook")
    least, most = MIN_WEBHOOK_DEADLINE_S, MAX_WEBHOOK_DEADLINE_S
    if math.isnan(webhook.deadline_s) or not least <= webhook.deadline_s <= most:
        raise InvalidField("deadline_s", f"it must be between {least} and {most:.0f}")
    for field, number, smallest, largest in (
        ("max_body_bytes", webhook.max_body_bytes, 1, MAX_BODY_BYTES),
        ("max_answer_bytes", webhook.max_answer_bytes, 1, MAX_ANSWER_BYTES),
        ("max_in_flight", webhook.max_in_flight, 1, MAX_IN_FLIGHT),
        ("max_retries", webhook.max_retries, 0, MAX_RETRIES),
    ):
        if not smallest <= number <= largest:
            raise InvalidField(field, f"it must be between {smallest} and {largest}")


def check_url(url: str, *, allows_private: bool) -> None:
    """As far as that can be done without asking the network."""
    if len(url) > MAX_URL_LENGTH:
        raise InvalidField("url", f"it has at most {MAX_URL_LENGTH} characters")
    if "#" in url:
        raise InvalidField("url", "it must not have a fragment")
    try:
        webhook_address(url, hosts=settings.HOOK_WEBHOOK_HOSTS, allows_private=allows_private)
    except AddressRefused as refusal:
        raise InvalidField("url", str(refusal)) from None


def check_secret(secret: str) -> None:
    if not MIN_SECRET_CHARS <= len(secret) <= MAX_SECRET_CHARS:
        raise InvalidField("secret", f"it has {MIN_SECRET_CHARS} to {MAX_SECRET_CHARS} characters")
    if _NOT_IN_SECRETS.search(secret):
        raise InvalidField("secret", "it must not contain control characters")
