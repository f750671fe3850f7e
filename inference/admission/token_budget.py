"""Keeps the sum of what running sequences may need within the shared pool of KV cells.

A reservation is prompt + min(max_tokens, 512) tokens: `max_tokens` is a ceiling that few answers
reach, so reserving all of it would leave most of the pool unused. Answers longer than the headroom
run over their reservation; where the pool then really runs out, the engine preempts.
"""

from __future__ import annotations

from dataclasses import dataclass

DECODE_HEADROOM_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TokenBudgetStatistics:
    num_capacity_tokens: int
    num_reserved_tokens: int
    num_reservations: int


def needed_tokens(*, num_prompt_tokens: int, max_tokens: int) -> int:
    """What a request reserves."""
    return num_prompt_tokens + min(max_tokens, DECODE_HEADROOM_TOKENS)


class Reservation:
    """Tokens taken from a budget; `release()` gives them back once, however often it is called."""

    __slots__ = ("_budget", "num_tokens")

    def __init__(self, budget: TokenBudget, num_tokens: int) -> None:
        self._budget: TokenBudget | None = budget
        self.num_tokens = num_tokens

    def release(self) -> None:
        budget, self._budget = self._budget, None
        if budget is not None:
            budget._give_back(self)

    def __repr__(self) -> str:
        state = "held" if self._budget is not None else "released"
        return f"<Reservation of {self.num_tokens} tokens, {state}>"


class TokenBudget:
    """Counts reserved tokens. Not thread-safe by itself: its owner's mutex guards it."""

    def __init__(self, *, num_capacity_tokens: int) -> None:
        if num_capacity_tokens < 1:
            raise ValueError("a token budget needs at least one token")
        self.num_capacity_tokens = num_capacity_tokens
        self._held: set[Reservation] = set()
        self._num_reserved = 0

    @property
    def num_free_tokens(self) -> int:
        return self.num_capacity_tokens - self._num_reserved

    def is_possible(self, num_needed_tokens: int) -> bool:
        """It could run alone."""
        return num_needed_tokens <= self.num_capacity_tokens

    def try_reserve(self, num_needed_tokens: int) -> Reservation | None:
        """A reservation if it fits what is free now (exactly full is fine), else None."""
        if num_needed_tokens > self.num_free_tokens:
            return None
        reservation = Reservation(self, num_needed_tokens)
        self._held.add(reservation)
        self._num_reserved += num_needed_tokens
        return reservation

    def _give_back(self, reservation: Reservation) -> None:
        self._held.remove(reservation)
        self._num_reserved -= reservation.num_tokens

    def statistics(self) -> TokenBudgetStatistics:
        return TokenBudgetStatistics(self.num_capacity_tokens, self._num_reserved, len(self._held))

    def check_integrity(self) -> None:
        assert self._num_reserved == sum(r.num_tokens for r in self._held), repr(self)
        assert 0 <= self._num_reserved <= self.num_capacity_tokens, repr(self)

    def __repr__(self) -> str:
        used = f"{self._num_reserved} of {self.num_capacity_tokens} tokens"
        return f"<TokenBudget: {used} in {len(self._held)} reservations>"
