"""Whose usage a caller may read."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from rest_framework import serializers

from accounts.api.caller import ApiCaller
from accounts.api.listing import IdField
from accounts.scopes import Scope
from inference.usage.selectors import UsageOwner

USAGE_SCOPES = frozenset({Scope.USAGE, Scope.USAGE_ALL})
OWNER_FIELDS = ("key_id", "user_id", "team_id")


def owner_fields() -> dict[str, serializers.Field]:
    return {name: IdField(required=False) for name in OWNER_FIELDS}


def usage_owner(caller: ApiCaller, asked: dict[str, Any]) -> UsageOwner:
    """What was asked for, if the caller may see it. With `usage` alone that is the key's own, or the
    user's own where somebody has signed in; to name others is refused whether they exist or not."""
    named = {name: asked[name] for name in OWNER_FIELDS if name in asked}
    if caller.has(Scope.USAGE_ALL):
        return UsageOwner(**named)
    own = {"user_id": caller.user_id} if caller.key_id is None else {"key_id": caller.key_id}
    if any(named[name] != own.get(name) for name in named):
        raise PermissionDenied("This needs the scope `usage_all`.")
    return UsageOwner(**own)
