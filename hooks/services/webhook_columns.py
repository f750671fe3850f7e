"""From the rows of webhooks to the words of those who call them, and back. The secret goes another way."""

from __future__ import annotations

from hooks.action_form.forms import FORM_BY_ACTION, FORM_BY_KIND
from hooks.contracts.actions import Action
from hooks.contracts.refusals import InvalidField
from hooks.contracts.webhook_settings import BodyPart, WebhookRights, WebhookSettings
from hooks.models import Webhook

# All that webhook_update writes, beside the secret.
WRITTEN_COLUMNS = (
    "name",
    "description",
    "url",
    "parts",
    "actions",
    "deadline_s",
    "max_body_bytes",
    "max_answer_bytes",
    "max_in_flight",
    "max_retries",
    "allows_private",
)


def settings_of(row: Webhook, *, secret: str = "") -> WebhookSettings:
    """What a row says. Raises InvalidField where somebody wrote rights into it that there are not."""
    return WebhookSettings(
        webhook_id=row.pk or 0,
        name=row.name,
        url=row.url,
        secret=secret,
        rights=rights_read(row.parts, row.actions),
        deadline_s=row.deadline_s,
        max_body_bytes=row.max_body_bytes,
        max_answer_bytes=row.max_answer_bytes,
        max_in_flight=row.max_in_flight,
        max_retries=row.max_retries,
        allows_private=row.allows_private,
    )


def write_columns(row: Webhook, settings: WebhookSettings, *, description: str) -> None:
    """Put what `settings` say into the row, but for the secret; not saved."""
    row.name = settings.name
    row.description = description
    row.url = settings.url
    row.parts = parts_written(settings.rights)
    row.actions = actions_written(settings.rights)
    row.deadline_s = settings.deadline_s
    row.max_body_bytes = settings.max_body_bytes
    row.max_answer_bytes = settings.max_answer_bytes
    row.max_in_flight = settings.max_in_flight
    row.max_retries = settings.max_retries
    row.allows_private = settings.allows_private


def rights_read(parts: list[str], actions: list[str]) -> WebhookRights:
    """Raises InvalidField."""
    known = {part.value: part for part in BodyPart}
    for place, part in enumerate(parts):
        if part not in known:
            raise InvalidField(f"parts[{place}]", f"expected one of {', '.join(known)}")
    for place, action in enumerate(actions):
        if action not in FORM_BY_KIND:
            raise InvalidField(f"actions[{place}]", f"expected one of {', '.join(FORM_BY_KIND)}")
    allowed: frozenset[type[Action]] = frozenset(FORM_BY_KIND[action].action for action in actions)
    return WebhookRights(frozenset(known[part] for part in parts), allowed)


def parts_written(rights: WebhookRights) -> list[str]:
    return [part.value for part in BodyPart if part in rights.parts]


def actions_written(rights: WebhookRights) -> list[str]:
    return [form.kind for action, form in FORM_BY_ACTION.items() if action in rights.actions]
