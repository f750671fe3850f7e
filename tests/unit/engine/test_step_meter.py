from __future__ import annotations

import time

import pytest

from inference.engine.stats import PhaseTimes
from inference.engine.step_meter import WINDOW_S, StepMeter


def step(meter: StepMeter, begin_ts: float, *, run_s: float = 0.2, compute_s: float = 0.15) -> None:
    """Scheduling takes 0.01 s, updating 0.02."""
    meter.ran(run_s, compute_s)
    meter.end_step(begin_ts, begin_ts + 0.01, begin_ts + 0.03 + run_s)


def test_a_step_is_divided_into_its_phases() -> None:
    meter = StepMeter(100.0)
    step(meter, 100.0)
    step(meter, 101.0, run_s=0.4, compute_s=0.1)
    last = meter.last_phases
    assert (last.schedule_s, last.compute_s) == (pytest.approx(0.01), pytest.approx(0.1))
    assert (last.sample_s, last.update_s) == (pytest.approx(0.3), pytest.approx(0.02))
    total = meter.total_phases
    assert total.compute_s == pytest.approx(0.25)
    assert total.total_s == pytest.approx(0.66)
    assert meter.max_step_s == pytest.approx(0.43)


def test_a_step_of_several_batches_counts_all_of_them() -> None:
    meter = StepMeter(0.0)
    for _ in range(3):
        meter.ran(0.1, 0.1)
    meter.end_step(0.0, 0.01, 0.35)
    assert meter.last_phases.compute_s == pytest.approx(0.3)
    assert meter.last_phases.update_s == pytest.approx(0.04)
    step(meter, 1.0)
    assert meter.last_phases.compute_s == pytest.approx(0.15)


def run_for(meter: StepMeter, begin_s: int, end_s: int, tokens: int = 0) -> int:
    """Ten steps a second, each of which generates a token; returns how many there are then."""
    for tenth in range(begin_s * 10, end_s * 10):
        now_ts = tenth / 10
        if now_ts >= meter.next_mark_ts:
            meter.mark(now_ts, 2 * tokens, tokens)
        step(meter, now_ts, run_s=0.05, compute_s=0.05)
        tokens += 1
    return tokens


def test_rates_are_those_of_the_last_ten_seconds() -> None:
    meter = StepMeter(0.0)
    tokens = run_for(meter, 0, 60)
    recent = meter.recent(60.0, 2 * tokens, tokens)
    assert WINDOW_S <= recent.window_s <= WINDOW_S + 1.1
    assert recent.generated_tokens_per_s == pytest.approx(10, rel=0.02)
    assert recent.prefill_tokens_per_s == pytest.approx(20, rel=0.02)
    assert recent.num_steps == pytest.approx(10 * recent.window_s, abs=1)
    assert recent.mean_phases.compute_s == pytest.approx(0.05)


def test_a_young_engine_is_measured_since_its_start() -> None:
    meter = StepMeter(0.0)
    tokens = run_for(meter, 0, 2)
    recent = meter.recent(2.0, 0, tokens)
    assert recent.window_s == pytest.approx(2.0)
    assert recent.generated_tokens_per_s == pytest.approx(10)


def test_rates_fall_to_nothing_while_it_is_idle() -> None:
    meter = StepMeter(0.0)
    tokens = run_for(meter, 0, 20)
    for second in range(20, 40):
        meter.mark(float(second), 0, tokens)
    recent = meter.recent(39.5, 0, tokens)
    assert recent.generated_tokens_per_s == 0
    assert recent.num_steps == 0
    assert recent.mean_phases == PhaseTimes()


def test_steps_longer_than_the_window_are_seen() -> None:
    meter = StepMeter(0.0)
    for index in range(5):
        meter.mark(30.0 * index, 100 * index, 0)
        step(meter, 30.0 * index, run_s=29.0, compute_s=29.0)
    recent = meter.recent(150.0, 500, 0)
    assert recent.window_s == pytest.approx(30.0)
    assert recent.prefill_tokens_per_s == pytest.approx(100 / 30)


def test_before_any_time_has_passed_there_are_no_rates() -> None:
    assert StepMeter(5.0).recent(5.0, 0, 0).window_s == 0


def test_it_costs_a_step_next_to_nothing() -> None:
    meter = StepMeter(0.0)
    best_s = 1.0
    for _ in range(20):
        begin_s = time.perf_counter()
        for _ in range(500):
            meter.ran(0.2, 0.1)
            meter.end_step(1.0, 1.1, 1.4)
        best_s = min(best_s, time.perf_counter() - begin_s)
    assert best_s / 500 < 3e-6
