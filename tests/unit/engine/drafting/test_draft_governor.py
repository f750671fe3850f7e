"""The governor against a simulated machine: what drafts cost is known here, and how often they are right."""

from __future__ import annotations

import random

import pytest

from inference.engine.drafting.draft_governor import (
    LOOKUP_CHANCES,
    DraftAccount,
    DraftGovernor,
    DraftOutcome,
    lookup_grade,
)

PLAIN_S = 0.01


class Machine:
    """Answers one after the other, of which each token takes a step: with drafts where the governor lets
    them, and as fast as it would have gone without."""

    def __init__(self, *, row_share: float, seed: int = 1, noise: float = 0.0) -> None:
        self.governor = DraftGovernor()
        self.random = random.Random(seed)
        self.row_share = row_share
        self.noise = noise
        self.num_drafted = 0

    def step_s(self, num_rows: int) -> float:
        disturbance = 1 + self.noise * self.random.random()
        return PLAIN_S * (1 + self.row_share * num_rows) * disturbance

    def answer(
        self, num_tokens: int, *, chance: float, grade: int = 0, window: int = 8, drafting_s: float = 0.0
    ) -> float:
        """How many times as fast as without drafts it was."""
        account = DraftAccount()
        took_s, num_done = 0.0, 0
        while num_done < num_tokens:
            budget = self.governor.begin_step(1, 32)
            size = budget.allowed(account, grade, window, drafting_s=drafting_s)
            if not size:
                step_s = self.step_s(0)
                self.governor.observe_plain([account], 1, step_s)
                num_done += 1
                took_s += step_s
                continue
            budget.take(account, grade, size)
            self.num_drafted += size
            num_right = 0
            while num_right < size and self.random.random() < chance:
                num_right += 1
            step_s = self.step_s(size)
            took_s += step_s + drafting_s * size
            num_done += 1 + num_right
            self.governor.observe(
                [account],
                [DraftOutcome(account, grade, size, num_right, num_right < size)],
                num_sequences=1,
                duration_s=step_s,
                drafting_s=drafting_s * size,
            )
        self.governor.close(account)
        mean_s = PLAIN_S * (1 + self.noise / 2)
        return num_tokens * mean_s / took_s


@pytest.mark.parametrize("row_share", [0.0, 0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("num_tokens", [100, 1000])
def test_drafts_that_are_always_wrong_cost_less_than_three_hundredths(
    row_share: float, num_tokens: int
) -> None:
    machine = Machine(row_share=row_share)
    for _ in range(5):
        assert machine.answer(num_tokens, chance=0.0) > 0.97


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.3, 0.5])
def test_nor_do_drafts_that_are_seldom_right(chance: float) -> None:
    machine = Machine(row_share=0.5, noise=0.2)
    ratios = [machine.answer(200, chance=chance) for _ in range(20)]
    assert sum(ratios) / len(ratios) > 0.97


def test_short_answers_together_lose_no_more_than_long_ones() -> None:
    machine = Machine(row_share=0.3)
    ratios = [machine.answer(20, chance=0.0) for _ in range(200)]
    assert len(ratios) / sum(1 / ratio for ratio in ratios) > 0.97


def test_drafts_that_are_right_soon_pay() -> None:
    machine = Machine(row_share=0.3)
    assert machine.answer(200, chance=0.95) > 1.5
    assert machine.answer(200, chance=0.95, grade=3) > 1.6


def test_where_rows_cost_nothing_nothing_holds_drafts_back() -> None:
    machine = Machine(row_share=0.0)
    assert machine.answer(200, chance=0.5) > 1.7
    assert machine.num_drafted > 200


def test_it_stops_where_they_do_not_pay_and_tries_again_later() -> None:
    machine = Machine(row_share=1.0)
    machine.answer(2000, chance=0.1)
    num_tried = machine.num_drafted
    assert 0 < num_tried < 60
    machine.answer(2000, chance=0.1)
    assert num_tried < machine.num_drafted < 2 * 60


def test_a_text_that_begins_to_repeat_is_found_out() -> None:
    machine = Machine(row_share=0.3)
    machine.answer(500, chance=0.0)
    assert machine.answer(500, chance=0.95) > 1.3


def test_drafting_itself_counts_among_the_costs() -> None:
    """A draft model as slow as the model that it drafts for."""
    machine = Machine(row_share=0.3)
    for _ in range(5):
        assert machine.answer(200, chance=1.0, drafting_s=PLAIN_S) > 0.97


def test_nothing_is_drafted_before_plain_steps_were_measured() -> None:
    budget = DraftGovernor().begin_step(1, 32)
    assert budget.allowed(DraftAccount(), 0, 8) == 0


def test_rows_are_shared_among_those_that_ask() -> None:
    governor = DraftGovernor()
    for _ in range(5):
        governor.observe_plain([], 2, PLAIN_S)
    first, second = DraftAccount(), DraftAccount()
    first.is_open = second.is_open = True
    first.credit_s = second.credit_s = 10.0
    budget = governor.begin_step(2, 5)
    assert budget.allowed(first, 3, 4) == 4
    budget.take(first, 3, 4)
    assert budget.num_left == 1
    assert budget.allowed(second, 3, 4) <= 1


def test_a_disturbed_step_does_not_ruin_an_account() -> None:
    governor = DraftGovernor()
    account = DraftAccount()
    for _ in range(5):
        governor.observe_plain([account], 1, PLAIN_S)
    governor.begin_step(1, 8).allowed(account, 3, 1)
    outcome = DraftOutcome(account, 3, 1, 1, False)
    governor.observe([account], [outcome], num_sequences=1, duration_s=60.0)
    assert account.credit_s > -2 * PLAIN_S


def test_grades_rise_with_the_length_of_a_match() -> None:
    grades = [lookup_grade(num_matched) for num_matched in (3, 4, 5, 8, 9, 16, 17, 64)]
    assert grades == [0, 0, 1, 1, 2, 2, 3, 3]
    assert list(LOOKUP_CHANCES) == sorted(LOOKUP_CHANCES)
