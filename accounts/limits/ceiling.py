"""What holds for every key: the service's ceiling, counted in this process.

It is there so that a key without limits of its own is shown what it may do, and so that what it is
shown is true. A key without limits must not cost a look into the database for it.
"""

from __future__ import annotations

from cachetools import LRUCache

from accounts.contracts import Limits
from accounts.limits.contracts import LimitScope, Quota, Refusal
from accounts.limits.counter import Counter, Owner

MAX_KEYS = 10_000


class Ceiling:
    """One counter a key, of the keys that came lately. Event loop only; `now` is Unix seconds."""

    def __init__(self, *, max_requests_per_minute: int, max_tokens_per_minute: int) -> None:
        self._limits = Limits(
            max_requests_per_minute=max_requests_per_minute, max_tokens_per_minute=max_tokens_per_minute
        )
        self._counters: LRUCache[int, Counter] = LRUCache(MAX_KEYS)

    def __repr__(self) -> str:
        most = self._limits
        return (
            f"<Ceiling {most.max_requests_per_minute} requests, {most.max_tokens_per_minute} tokens a "
            f"minute; {len(self._counters)} keys>"
        )

    def refusal(self, key_id: int, now: float, *, num_tokens: int) -> Refusal | None:
        return self._counter(key_id, now).refusal(self._limits, now, num_tokens=num_tokens)

    def take(self, key_id: int, now: float, *, num_tokens: int) -> int:
        """Returns the slot."""
        return self._counter(key_id, now).take(now, num_tokens=num_tokens)

    def give_back(
        self, key_id: int, now: float, *, slot: int, num_reserved: int, num_tokens: int | None
    ) -> None:
        counter = self._counter(key_id, now)
        if num_tokens is None:
            counter.refund(slot=slot, num_reserved=num_reserved)
        else:
            counter.settle(now, slot=slot, num_reserved=num_reserved, num_tokens=num_tokens)

    def quotas(self, key_id: int, now: float) -> tuple[Quota, Quota]:
        """Of requests and of tokens."""
        counter = self._counter(key_id, now)
        requests, tokens = counter.requests_quota(self._limits, now), counter.tokens_quota(self._limits, now)
        assert requests is not None and tokens is not None
        return requests, tokens

    def _counter(self, key_id: int, now: float) -> Counter:
        counter = self._counters.get(key_id)
        if counter is None:
            counter = self._counters[key_id] = Counter(Owner(LimitScope.KEY, key_id))
        counter.move_to(now)
        return counter
