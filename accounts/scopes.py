"""What a key may be used for, so that a program holds no more than its work needs.

A key has the two scopes that nearly every program wants; all others are granted one by one. A scope
says which doors open; whose data is behind them is said by the user of the key, except where the
scope's name says "all" or belongs to administrators. Standard library only.
"""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """One grant of a key, by the name that the API, the commands and the database use."""

    INFERENCE = "inference"
    USAGE = "usage"
    USAGE_ALL = "usage_all"
    KEYS_OWN = "keys_own"
    KEYS = "keys"
    MODELS = "models"
    POLICIES = "policies"
    METRICS = "metrics"


SCOPE_MEANINGS: dict[Scope, str] = {
    Scope.INFERENCE: "generate",
    Scope.USAGE: "read its own usage and records",
    Scope.USAGE_ALL: "read everybody's usage and records",
    Scope.KEYS_OWN: "make and revoke keys of its own user, within the bounds set for that user",
    Scope.KEYS: "manage users, teams, keys and limits, and read the history of changes",
    Scope.MODELS: "manage models",
    Scope.POLICIES: "manage policies",
    Scope.METRICS: "read /metrics",
}
DEFAULT_SCOPES = frozenset({Scope.INFERENCE, Scope.USAGE})
# What its owner may give to a key that he makes himself: never the right to make more of them, so that
# a key that leaked leaves nothing behind that goes on making keys.
SELF_SERVICE_SCOPES = DEFAULT_SCOPES


def scopes_sorted(scopes: frozenset[Scope]) -> list[str]:
    """The names in the order of the enumeration, so that the same grants always look the same."""
    return [scope.value for scope in Scope if scope in scopes]


def grantable_scopes(holder: frozenset[Scope]) -> frozenset[Scope]:
    """What a holder of these scopes may give to a key: nobody gives what he does not have himself.

    Giving out keys that generate is what `keys` is for, so it covers the default scopes and self-service.
    """
    if Scope.KEYS in holder:
        return holder | DEFAULT_SCOPES | {Scope.KEYS_OWN}
    if Scope.KEYS_OWN in holder:
        return holder & SELF_SERVICE_SCOPES
    return frozenset()
