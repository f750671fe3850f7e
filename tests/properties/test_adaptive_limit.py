"""The adaptive limit serving a simulated engine: what it promises, on runs that are always the same."""

import pytest

from benchmarks.simulated_engine import simulate
from inference.admission.concurrency import ConcurrencySettings

LANES, NOISE = 8, 0.20


def run(curve, settings, *, num_requests=1600, seed=1):
    return simulate(curve, settings, num_lanes=LANES, num_requests=num_requests, noise=NOISE, seed=seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_where_each_lane_serves_more_at_most_3_percent_are_lost_against_all_lanes(seed):
    best = run(lambda n: 0.01, ConcurrencySettings(), seed=seed)
    adaptive = run(lambda n: 0.01, ConcurrencySettings(is_adaptive=True), seed=seed)
    assert adaptive.tokens_per_s >= 0.97 * best.tokens_per_s
    assert adaptive.mean_limit > LANES - 0.5


@pytest.mark.parametrize("seed", [1, 2])
def test_where_lanes_only_share_what_there_is_latency_falls_and_as_much_is_served(seed):
    def saturating(n):
        return 0.01 * max(1.0, n / 4)

    all_lanes = run(saturating, ConcurrencySettings(), seed=seed)
    adaptive = run(saturating, ConcurrencySettings(is_adaptive=True), seed=seed, num_requests=3200)
    assert adaptive.p95_latency_s < 0.85 * all_lanes.p95_latency_s
    assert adaptive.tokens_per_s >= 0.97 * all_lanes.tokens_per_s


def test_started_with_one_it_finds_the_lanes_that_pay():
    settings = ConcurrencySettings(is_adaptive=True, initial_limit=1)
    adaptive = run(lambda n: 0.01, settings)
    assert adaptive.limits[0][1] == 1
    assert adaptive.mean_limit > LANES - 1.5
