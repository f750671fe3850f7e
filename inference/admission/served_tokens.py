"""Who got how much lately: the measure by which the users of a class take turns.

Tokens, not requests: one long prompt costs as much as many short ones. What somebody got is
forgotten by half every minute, so that a night's batch is no debt in the morning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HALF_LIFE_S = 60.0
# Fewer tokens than this are as good as none.
FORGOTTEN_BELOW = 1.0


@dataclass(slots=True)
class Account:
    """`num_settled` tokens at `at_ts`, fading since; `num_running` of what runs now do not fade."""

    num_settled: float
    at_ts: float
    num_running: int = 0

    def total(self, now_ts: float) -> float:
        return self.num_settled * math.exp2((self.at_ts - now_ts) / HALF_LIFE_S) + self.num_running


class ServedTokens:
    """Prompt and output tokens by user. What is granted counts at once, as far as it is expected;
    when it has ended, what it really was. Not thread-safe by itself."""

    def __init__(self) -> None:
        self._accounts: dict[int, Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def total(self, user_id: int, now_ts: float) -> float:
        account = self._accounts.get(user_id)
        return 0.0 if account is None else account.total(now_ts)

    def begin(self, user_id: int, num_expected: int, now_ts: float) -> None:
        """Something of this user starts."""
        account = self._accounts.setdefault(user_id, Account(0.0, now_ts))
        account.num_running += num_expected

    def end(self, user_id: int, *, num_expected: int, num_served: int, now_ts: float) -> None:
        """It has ended: `num_expected` is what `begin` was told, `num_served` what it came to."""
        account = self._accounts[user_id]
        account.num_running -= num_expected
        settled = account.total(now_ts) - account.num_running
        self._accounts[user_id] = Account(settled + num_served, now_ts, account.num_running)
        self._forget(now_ts)

    def _forget(self, now_ts: float) -> None:
        """Drop the oldest accounts that have faded: as many as one end may add, and one more."""
        for user_id in list(self._accounts)[:2]:
            account = self._accounts.pop(user_id)
            if account.num_running or account.total(now_ts) >= FORGOTTEN_BELOW:
                self._accounts[user_id] = account  # to the end: others are looked at next time

    def __repr__(self) -> str:
        return f"<ServedTokens of {len(self._accounts)} users>"
