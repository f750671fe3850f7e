"""Who calls the management API, however he signed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accounts.models import ApiKey
from accounts.scopes import Scope

# What an administrator needs in Django's own terms to have a scope when signed in by session.
_STAFF_PERMISSIONS = {
    Scope.KEYS: ("auth.add_user", "auth.change_user", "accounts.add_apikey", "accounts.change_apikey"),
    Scope.MODELS: ("inference.add_modelrow", "inference.change_modelrow", "inference.delete_modelrow"),
    Scope.POLICIES: (
        *(f"hooks.{verb}_hookpolicy" for verb in ("add", "change", "delete")),
        *(f"hooks.{verb}_webhook" for verb in ("add", "change", "delete")),
    ),
    Scope.USAGE_ALL: ("inference.view_generationrecord",),
}
SESSION_SCOPES = frozenset({Scope.USAGE, Scope.KEYS_OWN})


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """The user and what he may do here. `key` is the key that was shown, None for a session."""

    user_id: int
    username: str
    scopes: frozenset[Scope]
    is_superuser: bool
    key: ApiKey | None = None

    @property
    def key_id(self) -> int | None:
        return None if self.key is None else self.key.pk

    def has(self, scope: Scope) -> bool:
        return scope in self.scopes


def caller_by_key(key: ApiKey) -> ApiCaller:
    """A key has its scopes and nothing of what its user may do in the admin."""
    return ApiCaller(key.user_id, key.user.get_username(), key.granted_scopes(), is_superuser=False, key=key)


def caller_by_session(user: Any) -> ApiCaller:
    """An administrator may do here what the admin lets him do, everybody else what concerns himself."""
    if user.is_superuser:
        scopes = frozenset(Scope)
    else:
        granted = {
            scope
            for scope, permissions in _STAFF_PERMISSIONS.items()
            if user.is_staff and user.has_perms(permissions)
        }
        scopes = SESSION_SCOPES | granted
    return ApiCaller(user.pk, user.get_username(), scopes, is_superuser=user.is_superuser)
