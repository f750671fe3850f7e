"""The words in which accounts answers "may this request begin, and what is left?".

A door asks a `LimitDesk`. What is taken is a `LimitReservation`, which is given back exactly once:
settled with what was really used, or refunded. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from accounts.contracts import Principal


class LimitsUnavailable(Exception):
    """Nobody can say what is left now (the database is away or too slow): a 503, never a free pass."""


class LimitScope(StrEnum):
    """Whose limit it is."""

    KEY = "key"
    USER = "user"
    TEAM = "team"


class LimitKind(StrEnum):
    """What is limited. Only a budget is not helped by waiting a minute."""

    REQUESTS_PER_MINUTE = "requests_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    PARALLEL_REQUESTS = "parallel_requests"
    TOKENS_PER_DAY = "tokens_per_day"
    TOKENS_PER_WEEK = "tokens_per_week"
    TOKENS_PER_MONTH = "tokens_per_month"

    @property
    def is_budget(self) -> bool:
        return self in (LimitKind.TOKENS_PER_DAY, LimitKind.TOKENS_PER_WEEK, LimitKind.TOKENS_PER_MONTH)


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit per minute as callers are shown it. After `reset_s` seconds without use all of it is free."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """The tightest quotas of a key, its user and its team, or the service's ceiling."""

    requests: Quota
    tokens: Quota


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing may begin: of `limit`, `used` is used or reserved, and `needed` more is asked for.
    In `wait_s` seconds it may be different."""

    scope: LimitScope
    kind: LimitKind
    limit: int
    used: int
    needed: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How a caller stands before it asks for anything. `refusal` is there where not even the smallest
    request could begin."""

    allowance: Allowance
    refusal: Refusal | None = None


class LimitExceeded(Exception):
    """A limit does not let this request begin."""

    def __init__(self, refusal: Refusal, allowance: Allowance) -> None:
        super().__init__(refusal.kind.value)
        self.refusal = refusal
        self.allowance = allowance


class LimitReservation(Protocol):
    """What one request has taken. The first call gives it back, further ones do nothing."""

    @property
    def allowance(self) -> Allowance:
        """What was left after it was taken."""
        ...

    def settle(self, num_tokens: int) -> None:
        """It has used so many tokens, prompt and output together."""
        ...

    def refund(self) -> None:
        """It has used nothing, and did not begin."""
        ...


class LimitDesk(Protocol):
    """Where requests are let in by their caller's limits. Event loop only."""

    async def standing(self, principal: Principal) -> Standing:
        """Takes nothing. Raises LimitsUnavailable."""
        ...

    async def reserve(self, principal: Principal, *, num_tokens: int) -> LimitReservation:
        """Take one request of so many tokens at most, from all limits or from none. Raises LimitExceeded
        or LimitsUnavailable. Who is cancelled while it waits has taken nothing."""
        ...
