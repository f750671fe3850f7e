"""What a key's facts mean at an instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from accounts.contracts import KeyFacts, KeyLookup, KeyState, Principal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRINCIPAL = Principal(user_id=1, username="ann", key_id=2, key_name="laptop")


def facts(*, revoked: bool = False, expires_at: datetime | None = None, active: bool = True) -> KeyFacts:
    return KeyFacts(PRINCIPAL, is_revoked=revoked, expires_at=expires_at, is_user_active=active)


def test_a_live_key_of_an_active_user_names_its_principal() -> None:
    assert facts().lookup_at(NOW) == KeyLookup(KeyState.VALID, PRINCIPAL)


def test_a_key_ends_at_its_expiry_and_not_before() -> None:
    ends = facts(expires_at=NOW)
    assert ends.state_at(NOW - timedelta(microseconds=1)) is KeyState.VALID
    assert ends.state_at(NOW) is KeyState.EXPIRED


@pytest.mark.parametrize(
    ("judged", "state"),
    [
        (facts(revoked=True, expires_at=NOW, active=False), KeyState.REVOKED),
        (facts(expires_at=NOW, active=False), KeyState.EXPIRED),
        (facts(active=False), KeyState.USER_INACTIVE),
    ],
)
def test_a_key_that_opens_nothing_names_nobody(judged: KeyFacts, state: KeyState) -> None:
    assert judged.lookup_at(NOW) == KeyLookup(state, None)


@pytest.mark.parametrize("state", [state for state in KeyState if state is not KeyState.VALID])
def test_a_principal_cannot_go_with_a_refusal(state: KeyState) -> None:
    with pytest.raises(ValueError, match="principal"):
        KeyLookup(state, PRINCIPAL)


def test_a_valid_lookup_cannot_be_without_a_principal() -> None:
    with pytest.raises(ValueError, match="principal"):
        KeyLookup(KeyState.VALID)
