"""Limits and policies as the management API writes and reads them."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from typing import Any

from rest_framework import serializers

from accounts.api.strict_serializer import StrictSerializer
from accounts.contracts import KeyPriority, Limits, Policy
from accounts.models.limit_columns import (
    MAX_ALLOWED,
    MAX_COUNT,
    MAX_MODEL_ID_LENGTH,
    MAX_NETWORK_LENGTH,
    MAX_SMALL_COUNT,
    validate_network,
)
from accounts.names import validate_name


def _count(largest: int, help_text: str) -> serializers.IntegerField:
    return serializers.IntegerField(
        min_value=0, max_value=largest, allow_null=True, required=False, help_text=help_text
    )


class LimitsSerializer(StrictSerializer):
    """null does not limit, 0 lets nothing through; what is left out stays as it is."""

    max_requests_per_minute = _count(MAX_SMALL_COUNT, "")
    max_tokens_per_minute = _count(MAX_COUNT, "prompt and output together")
    max_parallel_requests = _count(MAX_SMALL_COUNT, "running and waiting together")
    max_tokens_per_day = _count(MAX_COUNT, "from midnight, UTC")
    max_tokens_per_week = _count(MAX_COUNT, "from Monday, UTC")
    max_tokens_per_month = _count(MAX_COUNT, "from the first, UTC")
    budget_alert_percent = serializers.IntegerField(
        min_value=1, max_value=100, required=False, help_text="when to tell of a budget's use"
    )
    allowed_models = serializers.ListField(
        child=serializers.CharField(
            max_length=MAX_MODEL_ID_LENGTH, trim_whitespace=False, validators=[validate_name]
        ),
        max_length=MAX_ALLOWED,
        required=False,
        help_text="empty: all",
    )
    allowed_networks = serializers.ListField(
        child=serializers.CharField(max_length=MAX_NETWORK_LENGTH, validators=[validate_network]),
        max_length=MAX_ALLOWED,
        required=False,
        help_text="empty: from everywhere",
    )


def limits_changed(limits: Limits, given: dict[str, Any]) -> Limits:
    """`limits` with what a `LimitsSerializer` read."""
    changed = dict(given)
    if "allowed_models" in changed:
        changed["allowed_models"] = tuple(changed["allowed_models"])
    if "allowed_networks" in changed:
        changed["allowed_networks"] = tuple(ip_network(text) for text in changed["allowed_networks"])
    return replace(limits, **changed)


class PriorityField(serializers.ChoiceField):
    """A class of urgency, null where whoever is above decides."""

    def __init__(self, **kwargs: Any) -> None:
        choices = [priority.value for priority in KeyPriority]
        super().__init__(choices=choices, allow_null=True, **kwargs)

    def to_representation(self, value: Any) -> Any:
        return value or None


def policy_changed(policy: Policy, given: dict[str, Any]) -> Policy:
    """`policy` with the `priority`, `has_session_trust` and `keeps_text` of a body, where they are in it."""
    priority = policy.priority
    if "priority" in given:
        priority = KeyPriority(given["priority"]) if given["priority"] else None
    return Policy(
        given.get("has_session_trust", policy.has_session_trust),
        priority,
        given.get("keeps_text", policy.keeps_text),
    )
