"""Whom a policy's scope names: teams, users, keys and models, of which hooks know only ids.

The site names what knows them in the setting HOOK_SCOPE_DIRECTORY.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from hooks.contracts.policies import PolicyScope


class ScopeDirectory(Protocol):
    """Looks up whom there is."""

    def teams(self, ids: Set[int]) -> Mapping[int, str]:
        """Those of the ids that there are, with what people call them; so do the next two."""
        ...

    def users(self, ids: Set[int]) -> Mapping[int, str]: ...

    def keys(self, ids: Set[int]) -> Mapping[int, str]: ...

    def models(self, ids: Set[str]) -> Set[str]:
        """Those of the ids that there are: an alias is none."""
        ...

    def teams_named(self, names: Set[str]) -> Mapping[str, int]:
        """The ids of those of the names that there are."""
        ...

    def users_named(self, names: Set[str]) -> Mapping[str, int]: ...


def scope_directory() -> ScopeDirectory:
    found: ScopeDirectory = import_string(settings.HOOK_SCOPE_DIRECTORY)()
    return found


def scope_missing(scope: PolicyScope, directory: ScopeDirectory) -> list[tuple[str, int | str]]:
    """Field and id of whatever `scope` names that there is not, or no more."""
    pairs: list[tuple[str, int | str]] = []
    for field, ids, found in (
        ("scope.team_ids", scope.team_ids, directory.teams),
        ("scope.user_ids", scope.user_ids, directory.users),
        ("scope.key_ids", scope.key_ids, directory.keys),
    ):
        if ids:
            pairs += [(field, one) for one in sorted(ids - found(ids).keys())]
    if scope.models:
        pairs += [("scope.models", one) for one in sorted(scope.models - directory.models(scope.models))]
    return pairs
