"""The words in which accounts answers "who is calling?", for doors that know no database.

A door asks `accounts.selectors.api_key_lookup` and gets a `KeyLookup`. Only a VALID one has a
`Principal`, so that a caller whose key is expired or revoked cannot be let in by mistake.
Standard library only; everything here is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from accounts.scopes import DEFAULT_SCOPES, Scope


class AccountsUnavailable(Exception):
    """Nobody can say whether a key is good now (the database is away or too slow): a 503, never a 401."""


class KeyState(StrEnum):
    """What a key opens. Everything but VALID is a 401; the state serves its code and the counters."""

    VALID = "valid"
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    REVOKED = "revoked"
    USER_INACTIVE = "user_inactive"


class KeyPriority(StrEnum):
    """Whose requests go first where there is more work than lanes."""

    INTERACTIVE = "interactive"
    NORMAL = "normal"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Policy:
    """What an administrator decided about a user, or about one key.

    `has_session_trust`: the session named in the configured header is believed. `priority` None
    leaves it to whoever decides next: the user for a key, the service (NORMAL) for a user.
    """

    has_session_trust: bool = False
    priority: KeyPriority | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling: the user and the key that was shown, and what the two may."""

    user_id: int
    username: str
    key_id: int
    key_name: str
    has_session_trust: bool = False
    priority: KeyPriority = KeyPriority.NORMAL
    scopes: frozenset[Scope] = DEFAULT_SCOPES


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The answer to one look-up. `principal` is there exactly when the state is VALID."""

    state: KeyState
    principal: Principal | None = None

    def __post_init__(self) -> None:
        if (self.state is KeyState.VALID) != (self.principal is not None):
            raise ValueError(f"a principal belongs to a valid key and to no other (state {self.state.value})")


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What the database says of one key, and the only place that turns it into a state.

    The facts may be kept for a few seconds; the state is asked anew each time, so that an expiry
    is exact however old the facts are. `expires_at` is aware, None for a key without an end.
    """

    principal: Principal
    is_revoked: bool
    expires_at: datetime | None
    is_user_active: bool

    def state_at(self, now: datetime) -> KeyState:
        if self.is_revoked:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        if not self.is_user_active:
            return KeyState.USER_INACTIVE
        return KeyState.VALID

    def lookup_at(self, now: datetime) -> KeyLookup:
        state = self.state_at(now)
        return KeyLookup(state, self.principal if state is KeyState.VALID else None)
