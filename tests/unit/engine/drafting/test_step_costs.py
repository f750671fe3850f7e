from __future__ import annotations

import pytest

from inference.engine.drafting.step_costs import ASSUMED_ROW_SHARE, StepCosts


def measured(duration_s: float = 0.01) -> StepCosts:
    costs = StepCosts()
    for _ in range(5):
        costs.observe(1, 0, duration_s)
    return costs


def test_nothing_is_known_before_a_few_steps_were_measured() -> None:
    costs = StepCosts()
    costs.observe(1, 0, 0.01)
    assert costs.plain_s(1) is None
    assert costs.step_s(1, 4) is None


def test_rows_cost_what_is_assumed_until_they_were_measured() -> None:
    costs = measured()
    assert costs.step_s(1, 2) == pytest.approx(0.01 * (1 + 2 * ASSUMED_ROW_SHARE))
    costs.observe(1, 2, 0.011)
    assert costs.step_s(1, 2) == pytest.approx(0.011)


def test_between_two_measured_sizes_costs_rise_evenly_and_go_on_so_beyond() -> None:
    costs = measured()
    costs.observe(1, 2, 0.012)
    costs.observe(1, 6, 0.020)
    assert costs.step_s(1, 1) == pytest.approx(0.011)
    assert costs.step_s(1, 4) == pytest.approx(0.016)
    assert costs.step_s(1, 12) == pytest.approx(0.030)


def test_a_slower_machine_makes_drafts_no_dearer_in_comparison() -> None:
    costs = measured()
    costs.observe(1, 4, 0.02)
    for _ in range(60):
        costs.observe(1, 0, 0.015)
    assert costs.step_s(1, 4) == pytest.approx(0.03, rel=0.01)


def test_one_disturbed_step_says_little() -> None:
    costs = measured()
    costs.observe(1, 0, 5.0)
    costs.observe(1, 4, 0.02)
    costs.observe(1, 4, 9.0)
    plain, drafted = costs.plain_s(1), costs.step_s(1, 4)
    assert plain is not None
    assert plain < 0.0125
    assert drafted is not None
    assert drafted < 0.03


def test_a_first_disturbed_step_is_soon_forgotten() -> None:
    costs = StepCosts()
    costs.observe(1, 0, 1.0)
    for _ in range(40):
        costs.observe(1, 0, 0.01)
    assert costs.plain_s(1) == pytest.approx(0.01, rel=0.1)


def test_steps_of_several_sequences_are_their_own_matter() -> None:
    costs = measured()
    assert costs.plain_s(4) is None
    for _ in range(5):
        costs.observe(4, 0, 0.03)
    assert costs.plain_s(4) == pytest.approx(0.03)
    assert costs.plain_s(1) == pytest.approx(0.01)
