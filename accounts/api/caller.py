"""Who calls the management API, however he signed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accounts.models import ApiKey
from accounts.roles import session_scopes
from accounts.scopes import Scope


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
    scopes = session_scopes(user)
    return ApiCaller(user.pk, user.get_username(), scopes, is_superuser=user.is_superuser)
