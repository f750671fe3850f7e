"""The state machine's vectors. A `Bench` completes requests on a clock of its own."""

from __future__ import annotations

import math

import pytest

from inference.admission.concurrency import (
    AdaptiveConcurrency,
    CompletionObservation,
    ConcurrencySettings,
)
from inference.domain.admission_events import ConcurrencyAdapted, LimitAction, LimitReason


class Bench:
    def __init__(self, max_limit: int, initial: int, **settings: float) -> None:
        self.rule = AdaptiveConcurrency(
            ConcurrencySettings(is_adaptive=True, initial_limit=initial, **settings),  # type: ignore[arg-type]
            max_limit=max_limit,
        )
        self.now_ts = 100.0
        self.num_retiring = 0

    def complete(
        self,
        *,
        latency_s: float = 0.1,
        every_s: float = 0.1,
        is_saturated: bool = True,
        was_at_capacity: bool = False,
        num_tokens: int = 100,
        num_executed: int | None = None,
    ) -> ConcurrencyAdapted | None:
        self.now_ts += every_s
        seen = CompletionObservation(
            num_completed_tokens=num_tokens,
            num_executed_tokens=num_tokens if num_executed is None else num_executed,
            latency_s=latency_s,
            is_saturated=is_saturated,
            was_at_capacity=was_at_capacity,
            started_ts=self.now_ts - latency_s,
        )
        return self.rule.observe_completed(seen, now_ts=self.now_ts, num_retiring=self.num_retiring)

    def window(self, num: int = 16, **kinds: object) -> ConcurrencyAdapted | None:
        """Complete so many; all but the last must decide nothing."""
        for _ in range(num - 1):
            assert self.complete(**kinds) is None  # type: ignore[arg-type]
        return self.complete(**kinds)  # type: ignore[arg-type]


def is_decision(
    decision: ConcurrencyAdapted | None, action: LimitAction, reason: LimitReason, previous: int, current: int
) -> bool:
    assert decision is not None
    found = (decision.action, decision.reason, decision.previous_limit, decision.current_limit)
    assert found == (action, reason, previous, current)
    return True


def probing(max_limit: int = 4, initial: int = 1) -> Bench:
    bench = Bench(max_limit, initial)
    decision = bench.window()
    assert is_decision(decision, LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, initial, initial + 1)
    return bench


@pytest.mark.parametrize(("initial", "limit"), [(None, 4), (0, 1), (3, 3), (9, 4)])
def test_begins_with_the_lanes_or_what_is_set_within_them(initial, limit):
    settings = ConcurrencySettings(is_adaptive=True, initial_limit=initial)
    assert AdaptiveConcurrency(settings, max_limit=4).limit == limit


def test_a_window_under_demand_probes_one_more_and_tells_the_numbers():
    bench = Bench(4, 1)
    decision = bench.window()
    assert is_decision(decision, LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 1, 2)
    assert decision is not None
    assert decision.tokens_per_s == pytest.approx(1000)
    assert decision.p95_latency_s == pytest.approx(0.1)
    assert decision.p95_hardware_s_per_token == pytest.approx(0.001)
    assert decision.throughput_improvement is None
    assert (decision.num_observed, decision.num_saturated, decision.max_limit) == (16, 16, 4)
    assert bench.rule.limit == 2


def test_throughput_is_all_tokens_since_the_earliest_start():
    bench = Bench(4, 1)
    started_ts = bench.now_ts
    decision = None
    for index in range(16):
        at_ts = started_ts + 2.0
        seen = CompletionObservation(100, 100, 0.5, True, False, started_ts + index * 0.01)
        decision = bench.rule.observe_completed(seen, now_ts=at_ts, num_retiring=0)
    assert decision is not None
    assert decision.tokens_per_s == pytest.approx(800)


def test_a_trial_that_serves_more_at_the_same_latency_is_kept():
    bench = probing()
    decision = bench.window(latency_s=0.105, every_s=0.06)
    assert is_decision(decision, LimitAction.COMMIT, LimitReason.PROBE_HEALTHY, 1, 2)
    assert decision is not None and decision.throughput_improvement is not None
    assert decision.throughput_improvement > 0.03
    assert decision.p95_latency_ratio == pytest.approx(1.05)
    assert decision.hardware_pressure_ratio == pytest.approx(1.05)
    # and the next window tries again, without a pause
    again = bench.window(latency_s=0.105, every_s=0.06)
    assert is_decision(again, LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 2, 3)


def test_a_trial_under_which_each_token_takes_longer_is_taken_back():
    bench = probing()
    decision = bench.window(latency_s=0.13, every_s=0.06)
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.HARDWARE_BACKPRESSURE, 2, 1)


def test_a_trial_with_longer_answers_is_taken_back_for_its_latency():
    bench = probing()
    decision = bench.window(latency_s=0.13, every_s=0.06, num_tokens=130)
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.LATENCY_REGRESSION, 2, 1)


def test_a_trial_that_serves_no_more_is_taken_back():
    bench = probing()
    decision = bench.window()
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.NOT_IMPROVED, 2, 1)
    assert decision is not None and decision.throughput_improvement == pytest.approx(0.0)


def test_after_a_rollback_two_windows_pass_before_the_next_probe():
    bench = probing()
    bench.window()
    for _ in range(2):
        decision = bench.window()
        assert is_decision(decision, LimitAction.HOLD, LimitReason.COOLDOWN, 1, 1)
    assert is_decision(bench.window(), LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 1, 2)


def test_the_ceiling_is_held():
    decision = Bench(4, 4).window()
    assert is_decision(decision, LimitAction.HOLD, LimitReason.CEILING_REACHED, 4, 4)


def test_no_probe_while_permits_are_still_being_retired():
    bench = Bench(4, 1)
    bench.num_retiring = 1
    assert is_decision(bench.window(), LimitAction.HOLD, LimitReason.ROLLBACK_DRAINING, 1, 1)


def test_pressure_without_a_trial_takes_one_away_and_not_below_one():
    bench = Bench(4, 4)
    bench.window()
    decision = bench.window(latency_s=0.2)
    assert is_decision(decision, LimitAction.BACKOFF, LimitReason.HARDWARE_BACKPRESSURE, 4, 3)
    assert is_decision(bench.window(latency_s=0.2), LimitAction.HOLD, LimitReason.COOLDOWN, 3, 3)

    lowest = Bench(1, 1)
    lowest.window()
    decision = lowest.window(latency_s=0.2)
    assert is_decision(decision, LimitAction.HOLD, LimitReason.CEILING_REACHED, 1, 1)


def test_a_failure_takes_one_away_or_ends_the_trial_or_is_only_told_at_the_minimum():
    decision = Bench(4, 4).rule.observe_failed()
    assert is_decision(decision, LimitAction.BACKOFF, LimitReason.GENERATION_FAILURE, 4, 3)

    bench = probing()
    decision = bench.rule.observe_failed()
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.GENERATION_FAILURE, 2, 1)
    assert is_decision(bench.window(), LimitAction.HOLD, LimitReason.COOLDOWN, 1, 1)

    decision = Bench(4, 1).rule.observe_failed()
    assert is_decision(decision, LimitAction.HOLD, LimitReason.FAILURE_AT_MINIMUM, 1, 1)


def test_a_failure_forgets_what_was_measured():
    bench = Bench(4, 2)
    for _ in range(15):
        assert bench.complete() is None
    bench.rule.observe_failed()
    assert bench.complete() is None


def test_a_trial_without_demand_for_five_seconds_is_taken_back():
    bench = probing()
    assert bench.complete(is_saturated=False, every_s=4.9) is None
    decision = bench.complete(is_saturated=False, every_s=0.1)
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.DEMAND_ENDED, 2, 1)
    assert decision is not None and (decision.num_observed, decision.num_saturated) == (2, 0)


def test_a_trial_is_filled_by_requests_that_reached_the_limit_even_if_nobody_waited():
    bench = probing(max_limit=2)
    decision = bench.window(latency_s=0.105, every_s=0.06, is_saturated=False, was_at_capacity=True)
    assert is_decision(decision, LimitAction.COMMIT, LimitReason.PROBE_HEALTHY, 1, 2)


def test_without_demand_the_limit_is_held_and_the_counts_are_told():
    bench = Bench(4, 1)
    for _ in range(2):
        decision = bench.window(is_saturated=False)
        assert is_decision(decision, LimitAction.HOLD, LimitReason.NO_SUSTAINED_DEMAND, 1, 1)
        assert decision is not None and (decision.num_observed, decision.num_saturated) == (16, 0)


def test_one_gap_between_requests_does_not_lose_the_window():
    bench = Bench(4, 1)
    for _ in range(8):
        assert bench.complete() is None
    assert bench.complete(is_saturated=False) is None
    decisions = [bench.complete() for _ in range(8)]
    held = decisions[6]
    assert is_decision(held, LimitAction.HOLD, LimitReason.NO_SUSTAINED_DEMAND, 1, 1)
    assert held is not None and (held.num_observed, held.num_saturated) == (16, 15)
    assert is_decision(decisions[7], LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 1, 2)


def test_a_long_gap_does():
    bench = Bench(4, 1)
    for _ in range(8):
        bench.complete()
    assert bench.complete(is_saturated=False, every_s=5.0) is None
    decisions = [bench.complete() for _ in range(15)]
    assert all(one is None or one.action is LimitAction.HOLD for one in decisions)
    assert is_decision(bench.complete(), LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 1, 2)


@pytest.mark.parametrize(
    "broken",
    [
        {"num_tokens": 0},
        {"num_executed": 0},
        {"latency_s": 0.0},
        {"latency_s": math.inf},
        {"latency_s": math.nan},
        {"latency_s": -1.0},
    ],
)
def test_what_is_no_measurement_loses_the_window_and_decides_nothing(broken):
    bench = Bench(4, 1)
    for _ in range(15):
        bench.complete()
    assert bench.complete(**broken) is None
    decisions = [bench.complete() for _ in range(15)]
    assert all(one is None or one.action is LimitAction.HOLD for one in decisions)
    assert is_decision(bench.complete(), LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 1, 2)


def test_cached_tokens_are_no_work_of_the_hardware():
    bench = Bench(4, 1)
    bench.window(num_tokens=100, num_executed=100)
    # Twice the latency, but of answers that had been half cached before: the same time per token.
    decision = bench.window(latency_s=0.2, every_s=0.1, num_tokens=400, num_executed=200)
    assert decision is not None
    assert decision.hardware_pressure_ratio == pytest.approx(1.0)
    assert decision.reason is LimitReason.LATENCY_REGRESSION


def test_thresholds_are_settings():
    bench = Bench(4, 1, window=4, max_latency_regression=1.0, max_hardware_regression=1.0)
    assert is_decision(bench.window(4), LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 1, 2)
    decision = bench.window(4, latency_s=0.19, every_s=0.05)
    assert is_decision(decision, LimitAction.COMMIT, LimitReason.PROBE_HEALTHY, 1, 2)


def at_ceiling(**settings: float) -> Bench:
    """Four of four lanes are used, and one window has been seen."""
    bench = Bench(4, 4, relief_windows=2, **settings)
    assert is_decision(bench.window(), LimitAction.HOLD, LimitReason.CEILING_REACHED, 4, 4)
    return bench


def test_after_some_windows_at_the_ceiling_one_fewer_is_tried_and_kept_where_as_much_is_served_sooner():
    bench = at_ceiling()
    assert is_decision(bench.window(latency_s=0.1), LimitAction.PROBE, LimitReason.RELIEF, 4, 3)
    for _ in range(4):  # those who ran beside more
        assert bench.complete(latency_s=9.0) is None
    for _ in range(3):
        decision = bench.window(latency_s=0.075)
        assert is_decision(decision, LimitAction.HOLD, LimitReason.RELIEF_OPEN, 3, 3)
    decision = bench.window(latency_s=0.075)
    assert is_decision(decision, LimitAction.COMMIT, LimitReason.RELIEF_HEALTHY, 4, 3)
    assert is_decision(bench.window(latency_s=0.075), LimitAction.PROBE, LimitReason.RELIEF, 3, 2)


def test_a_relief_that_costs_throughput_is_taken_back_and_the_ceiling_held():
    bench = at_ceiling()
    bench.window()
    for _ in range(4):
        bench.complete()
    decision = bench.window(latency_s=0.1, every_s=0.14)
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.RELIEF_COSTS, 3, 4)
    for reason in [LimitReason.COOLDOWN, LimitReason.COOLDOWN, LimitReason.CEILING_REACHED]:
        assert is_decision(bench.window(), LimitAction.HOLD, reason, 4, 4)
    assert is_decision(bench.window(), LimitAction.PROBE, LimitReason.RELIEF, 4, 3)


def test_where_one_more_did_not_pay_one_fewer_is_tried_before_that_is_tried_again():
    bench = Bench(8, 2, relief_windows=4)
    assert is_decision(bench.window(), LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 2, 3)
    assert is_decision(bench.window(), LimitAction.ROLLBACK, LimitReason.NOT_IMPROVED, 3, 2)
    for _ in range(2):
        assert is_decision(bench.window(), LimitAction.HOLD, LimitReason.COOLDOWN, 2, 2)
    assert is_decision(bench.window(), LimitAction.PROBE, LimitReason.RELIEF, 2, 1)
    for _ in range(2):
        bench.complete()
    decision = bench.window(every_s=0.2)
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.RELIEF_COSTS, 1, 2)
    for _ in range(2):
        assert is_decision(bench.window(), LimitAction.HOLD, LimitReason.COOLDOWN, 2, 2)
    assert is_decision(bench.window(), LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 2, 3)


def test_without_relief_the_ceiling_is_held_for_ever_and_probes_follow_each_cooldown():
    bench = Bench(2, 2, relief_windows=0)
    for _ in range(20):
        assert is_decision(bench.window(), LimitAction.HOLD, LimitReason.CEILING_REACHED, 2, 2)
    lower = Bench(4, 2, relief_windows=0)
    lower.window()
    lower.window()
    for _ in range(2):
        assert is_decision(lower.window(), LimitAction.HOLD, LimitReason.COOLDOWN, 2, 2)
    assert is_decision(lower.window(), LimitAction.PROBE, LimitReason.HARDWARE_HEADROOM, 2, 3)


def test_a_failure_during_a_relief_gives_the_lane_back():
    bench = at_ceiling()
    bench.window()
    decision = bench.rule.observe_failed()
    assert is_decision(decision, LimitAction.ROLLBACK, LimitReason.GENERATION_FAILURE, 3, 4)
    assert is_decision(bench.window(), LimitAction.HOLD, LimitReason.COOLDOWN, 4, 4)
