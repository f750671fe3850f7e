"""What is asked of the counters together: one transaction takes along whatever came meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from accounts.contracts import Limits
from accounts.limits.contracts import Refusal
from accounts.limits.counter import Counter, Owner

Owners = Mapping[Owner, Limits]


@dataclass(frozen=True, slots=True)
class Picture:
    """How the counters stood at `now` (the database's clock, Unix seconds), and what stood against it."""

    counters: tuple[Counter, ...]
    now: float
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a batch has come to: pictures by the place in `asked`, and its counters afterwards."""

    pictures: tuple[Picture, ...]
    counters: tuple[Counter, ...]
    now: float


@dataclass(frozen=True, slots=True)
class Look:
    """Asks, takes nothing."""

    owners: Owners
    answer: asyncio.Future[Picture]


@dataclass(frozen=True, slots=True)
class Take:
    """Asks for one request of so many tokens, from all owners or from none."""

    reservation_id: UUID
    owners: Owners
    num_tokens: int
    answer: asyncio.Future[Picture]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """A reservation has ended. `num_tokens` is what it used, None where it did not begin."""

    reservation_id: UUID
    owners: tuple[Owner, ...]
    num_tokens: int | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What is given back comes first, so that whoever ended makes room for whoever comes."""

    given_back: tuple[GiveBack, ...] = ()
    asked: tuple[Look | Take, ...] = ()

    @property
    def owners(self) -> set[Owner]:
        named = {owner for one in self.given_back for owner in one.owners}
        return named.union(*(one.owners for one in self.asked))


@dataclass(frozen=True, slots=True)
class Taken:
    """A reservation as it is stored: from whom it was taken, in which second, and how much."""

    id: UUID
    owners: tuple[Owner, ...]
    slot: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Decided:
    """What a batch has come to, and what the store has to write down for it."""

    outcome: Outcome
    made: list[Taken]
    ended: list[UUID]
    changed: set[Owner]


def decide(
    batch: Batch, counters: Mapping[Owner, Counter], taken: Mapping[UUID, Taken], now: float
) -> Decided:
    """Change `counters` (all owners of the batch, locked by whoever calls) as it asks for.

    `taken` are those of the reservations to be given back that are still there: one that was given
    back already, by whoever, is not given back twice.
    """
    pictures: list[Picture] = []
    changed: set[Owner] = set()
    made: list[Taken] = []
    for counter in counters.values():
        counter.move_to(now)
    for one in batch.given_back:
        _give_back(one, taken.get(one.reservation_id), counters, now)
        changed.update(one.owners)
    for asked in batch.asked:
        picture = _look(asked, counters, now)
        pictures.append(picture)
        if isinstance(asked, Take) and picture.refusal is None:
            slot = 0
            for owner in asked.owners:
                slot = counters[owner].take(now, num_tokens=asked.num_tokens)
            made.append(Taken(asked.reservation_id, tuple(asked.owners), slot, asked.num_tokens))
            changed.update(asked.owners)
    outcome = Outcome(tuple(pictures), tuple(counters.values()), now)
    return Decided(outcome, made, list(taken), changed)


def _look(asked: Look | Take, counters: Mapping[Owner, Counter], now: float) -> Picture:
    """What stands against it, the longest wait first."""
    num_tokens = asked.num_tokens if isinstance(asked, Take) else 1
    refusals = [
        counters[owner].refusal(limits, now, num_tokens=num_tokens) for owner, limits in asked.owners.items()
    ]
    refusal = max((one for one in refusals if one is not None), key=lambda one: one.wait_s, default=None)
    return Picture(tuple(counters[owner] for owner in asked.owners), now, refusal)


def _give_back(one: GiveBack, taken: Taken | None, counters: Mapping[Owner, Counter], now: float) -> None:
    if taken is None:
        # Given back already, for dead; what it used all the same counts now.
        for owner in one.owners if one.num_tokens else ():
            counters[owner].window.add(now, num_tokens=one.num_tokens or 0)
        return
    for owner in taken.owners:
        if one.num_tokens is None:
            counters[owner].refund(slot=taken.slot, num_reserved=taken.num_tokens)
        else:
            counters[owner].settle(
                now, slot=taken.slot, num_reserved=taken.num_tokens, num_tokens=one.num_tokens
            )
