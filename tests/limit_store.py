"""Counters in memory with the real rules, for tests of what is around them."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from accounts.limits.contracts import LimitsUnavailable
from accounts.limits.counter import Counter, Owner
from accounts.limits.transaction import Batch, GiveBack, Outcome, Taken, decide
from tests.clocks import FakeClock


@dataclass
class SharedCounters:
    """What all processes share."""

    counters: dict[Owner, Counter] = field(default_factory=dict)
    taken: dict[UUID, tuple[str, Taken]] = field(default_factory=dict)


class MemoryLimitStore:
    """Implements accounts.limits.desk.LimitStore for one process of those that share `shared`."""

    def __init__(self, shared: SharedCounters, *, clock: FakeClock, process: str = "one") -> None:
        self.shared = shared
        self.is_away = False
        self.loses_answers = False
        self.batches: list[Batch] = []
        self.has_left = False
        self._clock = clock
        self._process = process

    async def run(self, batch: Batch) -> Outcome:
        if self.is_away:
            raise LimitsUnavailable("away")
        self.batches.append(batch)
        counters = self.shared.counters
        for owner in batch.owners:
            counters.setdefault(owner, Counter(owner))
        ids = {one.reservation_id for one in batch.given_back}
        taken = {key: one for key, (_, one) in self.shared.taken.items() if key in ids}
        decided = decide(batch, counters, taken, self._clock.unix_time())
        for key in decided.ended:
            del self.shared.taken[key]
        self.shared.taken.update({one.id: (self._process, one) for one in decided.made})
        for counter in counters.values():
            counter.check_integrity()
        if self.loses_answers:
            raise LimitsUnavailable("the answer was lost")
        return copy.deepcopy(decided.outcome)

    async def beat(self, held: Collection[UUID]) -> int:
        if self.is_away:
            raise LimitsUnavailable("away")
        lost = [
            one
            for key, (owner, one) in self.shared.taken.items()
            if owner == self._process and key not in held
        ]
        if lost:
            await self.run(Batch(tuple(GiveBack(one.id, one.owners, None) for one in lost)))
        return len(lost)

    async def bury(self, process: str) -> None:
        """Another process is dead."""
        dead = [one for owner, one in self.shared.taken.values() if owner == process]
        await self.run(Batch(tuple(GiveBack(one.id, one.owners, None) for one in dead)))

    async def leave(self) -> None:
        await self.bury(self._process)
        self.has_left = True

    async def close(self) -> None:
        pass
