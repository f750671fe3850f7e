"""Whom a policy's scope names: teams, users, keys and models, of which hooks know only ids.

The site names what knows them in the setting HOOK_SCOPE_DIRECTORY.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from hooks.contracts.policies import PolicyScope


class ScopeDirectory(Protocol):
    """Each gives those of the ids that there are."""

    def team_ids(self, ids: Set[int]) -> Set[int]: ...

    def user_ids(self, ids: Set[int]) -> Set[int]: ...

    def key_ids(self, ids: Set[int]) -> Set[int]: ...

    def model_ids(self, ids: Set[str]) -> Set[str]:
        """Ids of models alone: an alias is none."""
        ...


def scope_directory() -> ScopeDirectory:
    found: ScopeDirectory = import_string(settings.HOOK_SCOPE_DIRECTORY)()
    return found


def scope_missing(scope: PolicyScope, directory: ScopeDirectory) -> list[tuple[str, int | str]]:
    """Field and id of whatever `scope` names that there is not, or no more."""
    pairs: list[tuple[str, int | str]] = []
    for field, ids, found in (
        ("scope.team_ids", scope.team_ids, directory.team_ids),
        ("scope.user_ids", scope.user_ids, directory.user_ids),
        ("scope.key_ids", scope.key_ids, directory.key_ids),
    ):
        if ids:
            pairs += [(field, one) for one in sorted(ids - found(ids))]
    if scope.models:
        pairs += [("scope.models", one) for one in sorted(scope.models - directory.model_ids(scope.models))]
    return pairs
