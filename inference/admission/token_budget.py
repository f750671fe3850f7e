"""Keeps the sum of what running sequences may need within the shared pool of KV cells.

A reservation is prompt + min(max_tokens, 512) tokens: `max_tokens` is a ceiling that few answers
reach, so reserving all of it would leave most of the pool unused. Answers longer than the headroom
run over their reservation; where the pool then really runs out, the engine preempts.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.errors import ContextLengthExceeded
from inference.domain.rejection_reason import RejectionReason

DECODE_HEADROOM_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TokenBudgetStatistics:
    num_capacity_tokens: int
    num_reserved_tokens: int
    num_reservations: int


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
        self._capacity = num_capacity_tokens
        self._held: set[Reservation] = set()
        self._num_reserved = 0

    @staticmethod
    def needed_tokens(*, prompt_tokens: int, max_tokens: int) -> int:
        return prompt_tokens + min(max_tokens, DECODE_HEADROOM_TOKENS)

    def check_possible(self, *, prompt_tokens: int, max_tokens: int) -> None:
        """Raise ContextLengthExceeded where the request could not run even alone."""
        needed = self.needed_tokens(prompt_tokens=prompt_tokens, max_tokens=max_tokens)
        if needed > self._capacity:
            raise ContextLengthExceeded(
                f"This request needs {needed} tokens of context, but only {self._capacity} exist.",
                reason=RejectionReason.NEVER_FITS,
            )

    def try_reserve(self, *, prompt_tokens: int, max_tokens: int) -> Reservation | None:
        """A reservation if it fits what is free now (exactly full is fine), else None."""
        needed = self.needed_tokens(prompt_tokens=prompt_tokens, max_tokens=max_tokens)
        if self._num_reserved + needed > self._capacity:
            return None
        reservation = Reservation(self, needed)
        self._held.add(reservation)
        self._num_reserved += needed
        return reservation

    def _give_back(self, reservation: Reservation) -> None:
        self._held.remove(reservation)
        self._num_reserved -= reservation.num_tokens

    def statistics(self) -> TokenBudgetStatistics:
        return TokenBudgetStatistics(self._capacity, self._num_reserved, len(self._held))

    def check_integrity(self) -> None:
        assert self._num_reserved == sum(r.num_tokens for r in self._held), repr(self)
        assert 0 <= self._num_reserved <= self._capacity, repr(self)

    def __repr__(self) -> str:
        used = f"{self._num_reserved} of {self._capacity} tokens"
        return f"<TokenBudget: {used} in {len(self._held)} reservations>"
