"""Keys as the management API writes and reads them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.api.limits import LimitsSerializer, PriorityField
from accounts.api.listing import IdField, PageQuery
from accounts.api.strict_serializer import StrictSerializer
from accounts.contracts import KeyState
from accounts.models import ApiKey
from accounts.names import MAX_NAME_LENGTH, validate_name
from accounts.scopes import DEFAULT_SCOPES, Scope, scopes_sorted
from accounts.services import MAX_ROTATION_GRACE


class ScopesField(serializers.ListField):
    """What a key may do, as a set: order and repetition mean nothing."""

    def __init__(self, **kwargs: Any) -> None:
        child = serializers.ChoiceField(choices=[scope.value for scope in Scope])
        super().__init__(child=child, max_length=4 * len(Scope), **kwargs)

    def to_internal_value(self, data: Any) -> frozenset[Scope]:
        return frozenset(Scope(name) for name in super().to_internal_value(data))


class NameField(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            max_length=MAX_NAME_LENGTH, trim_whitespace=False, validators=[validate_name], **kwargs
        )


class ApiKeySerializer(serializers.Serializer):
    """A key without anything that opens anything."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    user_id = serializers.IntegerField()
    username = serializers.CharField(source="user.username")
    prefix = serializers.CharField(source="visible_prefix")
    last4 = serializers.CharField()
    state = serializers.SerializerMethodField()
    scopes = serializers.SerializerMethodField()
    priority = PriorityField()
    has_session_trust = serializers.BooleanField()
    keeps_text = serializers.BooleanField()
    limits = LimitsSerializer()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    rotated_from_id = serializers.IntegerField(allow_null=True)

    @extend_schema_field(
        serializers.ChoiceField(choices=[state.value for state in KeyState if state is not KeyState.UNKNOWN])
    )
    def get_state(self, row: ApiKey) -> str:
        return row.state_at(timezone.now()).value

    @extend_schema_field(ScopesField())
    def get_scopes(self, row: ApiKey) -> list[str]:
        return scopes_sorted(row.granted_scopes())


class NewApiKeySerializer(ApiKeySerializer):
    """The same with the key itself: the only time that it is shown."""

    key = serializers.CharField()


class ApiKeyRequest(StrictSerializer):
    """A key to be made. Without a user it is the caller's own."""

    user_id = IdField(required=False)
    name = NameField()
    expires_at = serializers.DateTimeField(allow_null=True, default=None)
    scopes = ScopesField(default=DEFAULT_SCOPES)
    priority = PriorityField(required=False)
    has_session_trust = serializers.BooleanField(required=False)
    keeps_text = serializers.BooleanField(required=False, help_text="prompts and answers are kept")
    limits = LimitsSerializer(required=False)


class ApiKeyChange(StrictSerializer):
    """What is left out stays as it is."""

    name = NameField(required=False)
    expires_at = serializers.DateTimeField(allow_null=True, required=False)
    scopes = ScopesField(required=False)
    priority = PriorityField(required=False)
    has_session_trust = serializers.BooleanField(required=False)
    keeps_text = serializers.BooleanField(required=False)
    limits = LimitsSerializer(required=False)


class ApiKeyRotation(StrictSerializer):
    grace_s = serializers.IntegerField(
        min_value=0,
        max_value=int(MAX_ROTATION_GRACE.total_seconds()),
        default=0,
        help_text="how long the old key goes on, in seconds",
    )


class ApiKeyQuery(PageQuery):
    user_id = IdField(required=False)
    is_revoked = serializers.BooleanField(required=False)
