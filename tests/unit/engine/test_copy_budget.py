"""How much is copied in a step."""

from __future__ import annotations

from inference.engine.copy_budget import CopyBudget, CopyKind
from tests.unit.engine.scripted_engine_parts import ManualClock

SAVE, RESTORE = CopyKind.SAVE, CopyKind.RESTORE


class Budget(CopyBudget):
    """With a clock by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        super().__init__(self.clock.monotonic)


def spend(budget: Budget, elapsed_s: float, kind: CopyKind = SAVE, size: int = 10) -> None:
    """A copy takes so long."""
    begin_ts = budget.clock.monotonic()
    budget.clock.now_s += elapsed_s
    budget.spend(kind, size, begin_ts)


def test_beside_streams_only_twenty_milliseconds_are_spent() -> None:
    budget = Budget()
    budget.begin_step(has_streams=True)
    assert budget.allows(SAVE, 10, "a")
    spend(budget, 0.015)
    assert not budget.allows(SAVE, 10, "a")
    budget.begin_step(has_streams=True)
    assert budget.allows(SAVE, 10, "a")


def test_without_streams_it_is_more() -> None:
    budget = Budget()
    budget.begin_step(has_streams=False)
    for _ in range(5):
        assert budget.allows(SAVE, 10, "a")
        spend(budget, 0.015)


def test_beside_streams_one_state_is_copied_in_a_step() -> None:
    budget = Budget()
    budget.begin_step(has_streams=True)
    assert budget.allows(SAVE, 1, "a")
    spend(budget, 0.0001)
    assert not budget.allows(SAVE, 1, "b")
    assert budget.allows(SAVE, 1, "a")
    budget.begin_step(has_streams=False)
    assert budget.allows(SAVE, 1, "a")
    spend(budget, 0.0001)
    assert budget.allows(SAVE, 1, "b")


def test_what_takes_too_long_waits_for_a_step_without_streams() -> None:
    budget = Budget()
    budget.begin_step(has_streams=False)
    assert budget.allows(RESTORE, 10, "a")
    spend(budget, 5.0, RESTORE)
    budget.begin_step(has_streams=True)
    assert not budget.allows(RESTORE, 10, "a")
    assert budget.allows(SAVE, 10, "a"), "of that nothing is known yet"
    budget.begin_step(has_streams=False)
    assert budget.allows(RESTORE, 10, "a")


def test_one_slow_copy_is_not_held_against_it_for_ever() -> None:
    budget = Budget()
    budget.begin_step(has_streams=True)
    assert budget.allows(SAVE, 10, "a")
    spend(budget, 0.1)
    num_refused = 0
    budget.begin_step(has_streams=True)
    while not budget.allows(SAVE, 10, "a"):
        num_refused += 1
        budget.begin_step(has_streams=True)
    assert 10 < num_refused < 200


def test_it_says_whether_anything_was_copied() -> None:
    budget = Budget()
    budget.begin_step(has_streams=True)
    assert not budget.has_copied
    spend(budget, 0.001)
    assert budget.has_copied
    budget.begin_step(has_streams=True)
    assert not budget.has_copied
