"""Reservations in any order, with crashes and repetitions, against a list of what was let in."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accounts.contracts import Limits
from accounts.limits.contracts import LimitScope
from accounts.limits.counter import Counter, Owner
from accounts.limits.transaction import Batch, GiveBack, Look, Take, Taken, decide

PROCESSES = ("one", "two")
KEYS = (Owner(LimitScope.KEY, 1), Owner(LimitScope.KEY, 2))
USER = Owner(LimitScope.USER, 1)


@dataclass
class LetIn:
    """One request as the model knows it."""

    id: UUID
    process: str
    key: Owner
    at: float
    num_reserved: int
    is_open: bool = True
    was_refunded: bool = False
    num_used: int | None = None

    @property
    def num_tokens(self) -> int:
        return self.num_reserved if self.num_used is None else self.num_used


class Limiting(RuleBasedStateMachine):
    """Two keys of one user, on two processes that can die."""

    @initialize(
        requests=st.integers(0, 6), tokens=st.integers(0, 300), parallel=st.none() | st.integers(0, 4)
    )
    def begin(self, requests: int, tokens: int, parallel: int | None) -> None:
        self.of_user = Limits(
            max_requests_per_minute=requests, max_tokens_per_minute=tokens, max_parallel_requests=parallel
        )
        self.of_key = Limits(max_requests_per_minute=max(0, requests - 1))
        self.counters = {owner: Counter(owner) for owner in (*KEYS, USER)}
        self.stored: dict[UUID, Taken] = {}
        self.let_in: list[LetIn] = []
        self.now = 1_700_000_000.25
        self.last_excess_at = 0.0

    def run(self, batch: Batch) -> object:
        ids = {one.reservation_id for one in batch.given_back}
        taken = {key: one for key, one in self.stored.items() if key in ids}
        decided = decide(batch, self.counters, taken, self.now)
        for ended in decided.ended:
            del self.stored[ended]
        self.stored.update({one.id: one for one in decided.made})
        return decided

    @rule(seconds=st.floats(0, 50, allow_nan=False))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(process=st.sampled_from(PROCESSES), key=st.sampled_from(KEYS), num_tokens=st.integers(1, 400))
    def take(self, process: str, key: Owner, num_tokens: int) -> None:
        reservation_id = uuid4()
        owners = {key: self.of_key, USER: self.of_user}
        decided = self.run(Batch(asked=(Take(reservation_id, owners, num_tokens, None),)))
        refusal = decided.outcome.pictures[0].refusal
        assert (refusal is None) == (reservation_id in self.stored)
        if refusal is None:
            self.let_in.append(LetIn(reservation_id, process, key, self.now, num_tokens))
        else:
            assert 0 < refusal.wait_s <= 61

    @rule(key=st.sampled_from(KEYS))
    def who_waits_as_long_as_it_is_told_gets_further(self, key: Owner) -> None:
        """No refusal tells a wait after which the very same refusal comes again."""
        look = Batch(asked=(Look({key: self.of_key}, None),))
        refusal = self.run(look).outcome.pictures[0].refusal
        if refusal is not None and refusal.limit > 0:
            self.now += refusal.wait_s
            assert self.run(look).outcome.pictures[0].refusal is None

    def _open(self) -> list[LetIn]:
        return [one for one in self.let_in if one.is_open]

    @precondition(lambda self: self._open())
    @rule(data=st.data(), share=st.floats(0, 2), times=st.integers(1, 3))
    def settle(self, data: st.DataObject, share: float, times: int) -> None:
        one = data.draw(st.sampled_from(self._open()))
        used = int(one.num_reserved * share)
        self.run(Batch((GiveBack(one.id, (one.key, USER), used),)))
        for _ in range(times - 1):  # told again, after an answer that was lost: nothing of it is new
            before = {owner: counter.num_open for owner, counter in self.counters.items()}
            self.run(Batch((GiveBack(one.id, (one.key, USER), None),)))
            assert before == {owner: counter.num_open for owner, counter in self.counters.items()}
        one.is_open, one.num_used = False, used
        if used > one.num_reserved:
            self.last_excess_at = self.now

    @precondition(lambda self: self._open())
    @rule(data=st.data())
    def refund(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self._open()))
        self.run(Batch((GiveBack(one.id, (one.key, USER), None),)))
        one.is_open, one.was_refunded = False, True

    @rule(process=st.sampled_from(PROCESSES))
    def crash(self, process: str) -> None:
        dead = [one for one in self._open() if one.process == process]
        self.run(Batch(tuple(GiveBack(one.id, (one.key, USER), None) for one in dead)))
        for one in dead:
            one.is_open, one.was_refunded = False, True

    @invariant()
    def what_is_open_is_what_is_counted(self) -> None:
        for owner, counter in self.counters.items():
            mine = [one for one in self._open() if owner in (one.key, USER)]
            assert counter.num_open == len(mine)
            assert counter.num_reserved_tokens == sum(one.num_reserved for one in mine)
            counter.check_integrity()
        assert set(self.stored) == {one.id for one in self._open()}

    @invariant()
    def no_minute_has_more_than_its_limit(self) -> None:
        lately = [one for one in self.let_in if one.at > self.now - 60 and not one.was_refunded]
        assert len(lately) <= (self.of_user.max_requests_per_minute or 0)
        assert len(self._open()) <= (
            len(self.let_in)
            if self.of_user.max_parallel_requests is None
            else self.of_user.max_parallel_requests
        )
        if self.now - self.last_excess_at > 61 and len(lately) > 1:
            # One alone may be larger than the limit; any two together may not.
            counted = sum(one.num_tokens for one in lately)
            largest = max(one.num_tokens for one in lately)
            assert counted <= (self.of_user.max_tokens_per_minute or 0) or counted - largest == 0


Limiting.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLimiting = Limiting.TestCase
