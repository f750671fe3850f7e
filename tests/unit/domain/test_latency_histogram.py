import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.domain.latency_histogram import BOUNDS_S, NUM_BUCKETS, LatencyHistogram, bucket_of

latencies = st.lists(st.floats(min_value=0, max_value=5000), max_size=50)


def test_bounds_rise_by_the_eighth_root_of_ten_from_a_millisecond_to_a_thousand_seconds():
    assert BOUNDS_S[0] == 0.001
    assert BOUNDS_S[-1] == 1000.0
    assert all(math.isclose(b / a, 10 ** (1 / 8), rel_tol=1e-3) for a, b in itertools.pairwise(BOUNDS_S))


def test_a_bound_belongs_to_the_bucket_above_it():
    assert bucket_of(BOUNDS_S[3]) == 4
    assert bucket_of(0.0) == 0
    assert bucket_of(1e9) == NUM_BUCKETS - 1


@given(latencies, latencies)
def test_merging_is_the_same_as_counting_all_together(left, right):
    merged = LatencyHistogram.of(left) + LatencyHistogram.of(right)

    assert merged == LatencyHistogram.of(left + right)
    assert merged == LatencyHistogram.merged([merged.counts, [], [0] * NUM_BUCKETS])


@given(st.lists(st.floats(min_value=0.001, max_value=999), min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_off_by_a_bucket_at_most(values, share):
    rank = max(1, math.ceil(share * len(values)))
    true = sorted(values)[rank - 1]

    found = LatencyHistogram.of(values).quantile_s(share)

    assert true / 1.34 <= found + 1e-9
    assert found <= true * 1.34 + 1e-9


def test_nothing_has_no_quantile():
    assert LatencyHistogram().quantile_s(0.5) is None


def test_counts_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="buckets"):
        LatencyHistogram((1, 2))
    with pytest.raises(ValueError, match="buckets"):
        LatencyHistogram.merged([[1, 2]])
    with pytest.raises(ValueError, match="fewer"):
        LatencyHistogram((-1,) + (0,) * (NUM_BUCKETS - 1))
    with pytest.raises(ValueError, match="quantile"):
        LatencyHistogram().quantile_s(1.5)
