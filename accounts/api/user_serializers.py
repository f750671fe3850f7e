"""Users as the management API writes and reads them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.api.key_serializers import ScopesField
from accounts.api.limits import LimitsSerializer, PriorityField
from accounts.api.listing import IdField, PageQuery
from accounts.api.strict_serializer import StrictSerializer
from accounts.contracts import NO_LIMITS
from accounts.models import UserPolicy
from accounts.models.user_policy import MAX_OWN_KEYS

MAX_USERNAME_LENGTH = 150
MAX_OWN_KEY_DAYS = 32_767


class CallerSerializer(serializers.Serializer):
    user_id = serializers.IntegerField()
    username = serializers.CharField()
    key_id = serializers.IntegerField(allow_null=True)
    scopes = ScopesField()


class UserSerializer(serializers.Serializer):
    """A user and what was decided about him; `policy__team` is to be selected along."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField()
    is_active = serializers.BooleanField()
    is_staff = serializers.BooleanField()
    created_at = serializers.DateTimeField(source="date_joined")
    team_id = serializers.SerializerMethodField()
    team_name = serializers.SerializerMethodField()
    priority = serializers.SerializerMethodField()
    has_session_trust = serializers.SerializerMethodField()
    limits = serializers.SerializerMethodField()
    max_own_keys = serializers.SerializerMethodField()
    max_own_key_days = serializers.SerializerMethodField()

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_team_id(self, user: Any) -> int | None:
        return _policy(user).team_id

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_team_name(self, user: Any) -> str | None:
        team = _policy(user).team
        return None if team is None else team.name

    @extend_schema_field(PriorityField())
    def get_priority(self, user: Any) -> str | None:
        return _policy(user).priority or None

    def get_has_session_trust(self, user: Any) -> bool:
        return _policy(user).has_session_trust

    @extend_schema_field(LimitsSerializer())
    def get_limits(self, user: Any) -> Any:
        row = getattr(user, "policy", None)
        return LimitsSerializer(NO_LIMITS if row is None else row.limits()).data

    def get_max_own_keys(self, user: Any) -> int:
        return _policy(user).max_own_keys

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_max_own_key_days(self, user: Any) -> int | None:
        return _policy(user).max_own_key_days


class UserChange(StrictSerializer):
    """What is left out stays as it is."""

    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    is_active = serializers.BooleanField(required=False)
    team_id = IdField(allow_null=True, required=False)
    priority = PriorityField(required=False)
    has_session_trust = serializers.BooleanField(required=False)
    limits = LimitsSerializer(required=False)
    max_own_keys = serializers.IntegerField(min_value=0, max_value=MAX_OWN_KEYS, required=False)
    max_own_key_days = serializers.IntegerField(
        min_value=1, max_value=MAX_OWN_KEY_DAYS, allow_null=True, required=False
    )


class UserRequest(StrictSerializer):
    """A user to be made. Passwords and rights in the admin are given there."""

    username = serializers.CharField(max_length=MAX_USERNAME_LENGTH)
    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    team_id = IdField(allow_null=True, required=False)
    priority = PriorityField(required=False)
    has_session_trust = serializers.BooleanField(required=False)
    limits = LimitsSerializer(required=False)
    max_own_keys = serializers.IntegerField(min_value=0, max_value=MAX_OWN_KEYS, required=False)
    max_own_key_days = serializers.IntegerField(
        min_value=1, max_value=MAX_OWN_KEY_DAYS, allow_null=True, required=False
    )


class UserQuery(PageQuery):
    username = serializers.CharField(max_length=MAX_USERNAME_LENGTH, required=False)
    team_id = IdField(required=False)
    is_active = serializers.BooleanField(required=False)


def _policy(user: Any) -> UserPolicy:
    """The user's row, or one with the defaults that is in no table."""
    return getattr(user, "policy", None) or UserPolicy()
