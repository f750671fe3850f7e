"""The words in which accounts answers "who is calling?", for doors that know no database.

A door asks `accounts.selectors.api_key_lookup` and gets a `KeyLookup`. Only a VALID one has a
`Principal`, so that a caller whose key is expired or revoked cannot be let in by mistake.
Standard library only; everything here is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from accounts.scopes import DEFAULT_SCOPES, Scope

Network = IPv4Network | IPv6Network


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


def lowest_priority(*decided: KeyPriority | None) -> KeyPriority:
    """The class that holds where key, user and team were decided about: whoever is above bounds who is
    below. NORMAL where nobody decided; INTERACTIVE takes a decision that nobody above speaks against."""
    order = list(KeyPriority)
    return max((one for one in decided if one is not None), key=order.index, default=KeyPriority.NORMAL)


class BudgetPeriod(StrEnum):
    """The calendar's days, weeks (from Monday) and months, in UTC: when a token budget begins anew."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one key, user or team may do at most. None (or empty) does not limit.

    Requests and tokens are counted over the last minute, tokens as prompt and output together.
    `budget_alert_percent`: the share of a token budget from which on its use is worth telling.
    """

    max_requests_per_minute: int | None = None
    max_tokens_per_minute: int | None = None
    max_parallel_requests: int | None = None
    max_tokens_per_day: int | None = None
    max_tokens_per_week: int | None = None
    max_tokens_per_month: int | None = None
    budget_alert_percent: int = 80
    allowed_models: tuple[str, ...] = ()
    allowed_networks: tuple[Network, ...] = ()

    def budget(self, period: BudgetPeriod) -> int | None:
        match period:
            case BudgetPeriod.DAY:
                return self.max_tokens_per_day
            case BudgetPeriod.WEEK:
                return self.max_tokens_per_week
            case BudgetPeriod.MONTH:
                return self.max_tokens_per_month

    @property
    def has_counts(self) -> bool:
        """Whether anything here is counted, and so has to be looked up for each request."""
        return any(
            limit is not None
            for limit in (
                self.max_requests_per_minute,
                self.max_tokens_per_minute,
                self.max_parallel_requests,
                self.max_tokens_per_day,
                self.max_tokens_per_week,
                self.max_tokens_per_month,
            )
        )


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of a key and of those above it. All of them hold at once, so that no key gets past
    its user nor a user past its team, whatever was written where and when."""

    of_key: Limits = NO_LIMITS
    of_user: Limits = NO_LIMITS
    of_team: Limits = NO_LIMITS

    @property
    def all(self) -> tuple[Limits, Limits, Limits]:
        return (self.of_key, self.of_user, self.of_team)

    @property
    def has_counts(self) -> bool:
        return any(limits.has_counts for limits in self.all)

    def allows_model(self, *names: str) -> bool:
        """Whether each of them allows a model that has these names, by any one of them."""
        return all(
            not limits.allowed_models or any(name in limits.allowed_models for name in names)
            for limits in self.all
        )

    def allows_address(self, address: str | None) -> bool:
        """Whether a client may call from this address, as the trusted proxies tell it. Where networks
        are named, an address that is not known or not readable is none of theirs."""
        if not any(limits.allowed_networks for limits in self.all):
            return True
        client = _address(address)
        return client is not None and all(
            not limits.allowed_networks or any(client in network for network in limits.allowed_networks)
            for limits in self.all
        )


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    """An IPv4 address that a dual-stack socket shows as ::ffff:a.b.c.d is that IPv4 address."""
    try:
        address = ip_address(text or "")
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


NO_KEY_LIMITS = KeyLimits()


@dataclass(frozen=True, slots=True)
class Policy:
    """What an administrator decided about a user, or about one key.

    `has_session_trust`: the session named in the configured header is believed. `priority` None
    leaves it to whoever is above: the user for a key, the team for a user, the service (NORMAL) then.
    `keeps_text` is decided for keys alone: what is asked and answered with it is kept for a while.
    """

    has_session_trust: bool = False
    priority: KeyPriority | None = None
    keeps_text: bool = False


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling: the user and the key that was shown, and what the two may. `is_in_playground`: not the
    key itself was shown, but a pass that the console gave for it."""

    user_id: int
    username: str
    key_id: int
    key_name: str
    has_session_trust: bool = False
    priority: KeyPriority = KeyPriority.NORMAL
    scopes: frozenset[Scope] = DEFAULT_SCOPES
    team_id: int | None = None
    team_name: str = ""
    keeps_text: bool = False
    limits: KeyLimits = NO_KEY_LIMITS
    is_in_playground: bool = False


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
