"""Webhooks as the management API writes and reads them. A secret is written and never read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rest_framework import serializers

from accounts.api.listing import PageQuery
from accounts.api.strict_serializer import StrictSerializer
from hooks.action_form.forms import ACTION_FORMS
from hooks.api.policy_serializers import LineField
from hooks.contracts.actions import CallWebhook
from hooks.contracts.webhook_settings import (
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_IN_FLIGHT,
    MAX_RETRIES,
    MIN_SECRET_CHARS,
    BodyPart,
    WebhookSettings,
)
from hooks.models.policy import MAX_NAME_LENGTH
from hooks.models.webhook import MAX_URL_LENGTH
from hooks.services.webhook_checks import MAX_SECRET_CHARS
from hooks.services.webhook_columns import rights_read

_PARTS = [part.value for part in BodyPart]
_ACTIONS = [form.kind for form in ACTION_FORMS if form.action is not CallWebhook]


def _some_of(words: list[str], **kwargs: Any) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.ChoiceField(choices=words), max_length=2 * len(words), **kwargs
    )


def _whole(smallest: int, largest: int) -> serializers.IntegerField:
    return serializers.IntegerField(min_value=smallest, max_value=largest, required=False)


class WebhookSerializer(serializers.Serializer):
    """A row without its secret."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    description = serializers.CharField()
    url = serializers.CharField()
    parts = serializers.ListField(child=serializers.CharField(), help_text="what it may see")
    actions = serializers.ListField(child=serializers.CharField(), help_text="what it may answer with")
    deadline_s = serializers.FloatField()
    max_body_bytes = serializers.IntegerField()
    max_answer_bytes = serializers.IntegerField()
    max_in_flight = serializers.IntegerField()
    max_retries = serializers.IntegerField()
    allows_private = serializers.BooleanField()
    revision = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class WebhookChange(StrictSerializer):
    """What is left out stays as it is, the secret too."""

    name = LineField(max_length=MAX_NAME_LENGTH, required=False)
    description = LineField(allow_blank=True, required=False)
    url = LineField(max_length=MAX_URL_LENGTH, required=False)
    secret = LineField(
        min_length=MIN_SECRET_CHARS,
        max_length=MAX_SECRET_CHARS,
        required=False,
        help_text="signs each call; never shown again",
    )
    parts = _some_of(_PARTS, required=False, help_text="what it may see; empty: nothing of a request")
    actions = _some_of(_ACTIONS, required=False, help_text="what it may answer with; empty: nothing")
    deadline_s = serializers.FloatField(required=False, help_text="for a whole call, tries included")
    max_body_bytes = _whole(1, MAX_BODY_BYTES)
    max_answer_bytes = _whole(1, MAX_ANSWER_BYTES)
    max_in_flight = _whole(1, MAX_IN_FLIGHT)
    max_retries = _whole(0, MAX_RETRIES)
    allows_private = serializers.BooleanField(
        required=False, help_text="its address may be in a private network, and plain http"
    )


class WebhookRequest(WebhookChange):
    """A webhook to be added."""

    name = LineField(max_length=MAX_NAME_LENGTH)
    url = LineField(max_length=MAX_URL_LENGTH)
    secret = LineField(
        min_length=MIN_SECRET_CHARS,
        max_length=MAX_SECRET_CHARS,
        help_text="signs each call; never shown again",
    )


class WebhookQuery(PageQuery):
    name = LineField(max_length=MAX_NAME_LENGTH, required=False)


def settings_changed(settings: WebhookSettings, given: dict[str, Any]) -> WebhookSettings:
    """`settings` with what a `WebhookChange` read, but for the secret."""
    plain = (
        "name",
        "url",
        "deadline_s",
        "max_body_bytes",
        "max_answer_bytes",
        "max_in_flight",
        "max_retries",
        "allows_private",
    )
    changed: dict[str, Any] = {name: given[name] for name in plain if name in given}
    rights = settings.rights
    if "parts" in given:
        rights = replace(rights, parts=rights_read(given["parts"], []).parts)
    if "actions" in given:
        rights = replace(rights, actions=rights_read([], given["actions"]).actions)
    return replace(settings, rights=rights, **changed)
