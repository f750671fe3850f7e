"""Who may give which scopes to a key."""

from __future__ import annotations

import pytest

from accounts.scopes import DEFAULT_SCOPES, SCOPE_MEANINGS, Scope, grantable_scopes, scopes_sorted


def test_a_key_has_inference_and_its_own_usage_unless_something_else_is_said() -> None:
    assert scopes_sorted(DEFAULT_SCOPES) == ["inference", "usage"]


def test_every_scope_says_what_it_opens() -> None:
    assert set(SCOPE_MEANINGS) == set(Scope)


@pytest.mark.parametrize(
    ("holder", "grantable"),
    [
        (frozenset(), frozenset()),
        (DEFAULT_SCOPES, frozenset()),
        (frozenset({Scope.KEYS_OWN}), frozenset()),
        (DEFAULT_SCOPES | {Scope.KEYS_OWN, Scope.METRICS}, DEFAULT_SCOPES),
        (frozenset({Scope.KEYS_OWN, Scope.USAGE}), frozenset({Scope.USAGE})),
        (frozenset({Scope.KEYS}), DEFAULT_SCOPES | {Scope.KEYS, Scope.KEYS_OWN}),
        (frozenset(Scope), frozenset(Scope)),
    ],
)
def test_nobody_gives_what_he_does_not_have(holder, grantable) -> None:
    assert grantable_scopes(holder) == grantable
