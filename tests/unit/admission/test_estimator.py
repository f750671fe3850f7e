import math

import pytest

from inference.admission.estimator import Rate, ServiceEstimator, Work, percentile, retry_after_s


def measured(*, concurrency: int = 1) -> ServiceEstimator:
    """One that has seen 1 ms for a token of both phases."""
    estimator = ServiceEstimator(concurrency=concurrency)
    estimator.observe_completed(Work(1000, 1000), prompt_s=1.0, decode_s=1.0)
    return estimator


@pytest.mark.parametrize(("count", "index"), [(1, 0), (16, 15), (20, 18), (64, 60), (100, 94)])
def test_the_95th_percentile_is_the_value_at_ceil_of_share_times_n_minus_1(count, index):
    assert percentile([float(one) for one in range(count)], 0.95) == index


def test_the_average_takes_a_quarter_of_the_new_and_a_rate_is_the_worse_of_it_and_the_percentile():
    rate = Rate()
    rate.observe(10, 10.0)
    assert rate.conservative == 1.0
    for sample in (1.0, 1.0, 10.0):
        rate.observe(1, sample)
    assert rate.conservative == 10.0  # the average is 0.75 + 2.5

    slow_then_fast = Rate()
    slow_then_fast.observe(1, 100.0)
    for _ in range(64):
        slow_then_fast.observe(1, 1.0)
    assert slow_then_fast.conservative == pytest.approx(1.0, abs=1e-4)  # the first has left the 64


@pytest.mark.parametrize(
    ("num_tokens", "duration_s"), [(0, 1.0), (10, 0.0), (10, -1.0), (10, math.inf), (10, math.nan)]
)
def test_what_is_no_measurement_changes_nothing(num_tokens, duration_s):
    rate = Rate()
    rate.observe(num_tokens, duration_s)
    assert rate.conservative is None


def test_a_wait_is_all_work_times_its_rate_and_one_of_200_ms_is_not_taken_where_199_are_allowed():
    estimator = measured()
    estimator.start_active(Work(100, 100))
    assert estimator.predicted_wait_s() == pytest.approx(0.2)

    assert estimator.reserve_queued(Work(5, 5), allowed_s=0.199) is None
    assert estimator.statistics().queued == Work(0, 0)
    assert estimator.reserve_queued(Work(5, 5), allowed_s=estimator.predicted_wait_s()) is not None
    estimator.check_integrity()


def test_work_counts_the_same_queued_and_promoted_and_no_more_once_released():
    estimator = measured(concurrency=2)
    reservation = estimator.reserve_queued(Work(80, 20), allowed_s=10.0)
    assert reservation is not None
    assert estimator.predicted_wait_s() == pytest.approx(0.050)

    reservation.promote()
    reservation.promote()
    assert estimator.predicted_wait_s() == pytest.approx(0.050)
    assert estimator.statistics().active == Work(80, 20)

    reservation.release()
    reservation.release()
    assert estimator.predicted_wait_s() == 0.0
    estimator.check_integrity()
    assert "released" in repr(reservation)


def test_nothing_is_predicted_or_refused_before_anything_was_measured_or_without_a_limit():
    cold = ServiceEstimator(concurrency=1)
    cold.start_active(Work(10**6, 10**6))
    assert cold.predicted_wait_s() is None
    assert cold.reserve_queued(Work(1, 1), allowed_s=0.001) is not None

    warm = measured()
    warm.start_active(Work(10**6, 10**6))
    assert warm.reserve_queued(Work(1, 1), allowed_s=None) is not None
    assert warm.reserve_queued(Work(1, 1), allowed_s=-1.0) is None


def test_a_rate_that_is_missing_counts_as_nothing_and_fewer_than_one_at_once_are_one():
    estimator = ServiceEstimator(concurrency=0)
    estimator.observe_completed(Work(100, 1), prompt_s=0.1, decode_s=0.0)
    estimator.start_active(Work(100, 100))
    assert estimator.predicted_wait_s() == pytest.approx(0.1)
    estimator.set_concurrency(4)
    assert estimator.predicted_wait_s() == pytest.approx(0.025)


def test_an_answer_is_expected_to_be_no_longer_than_nine_in_ten_were_and_max_tokens_while_unknown():
    estimator = ServiceEstimator(concurrency=1)
    assert estimator.expected_work(num_prompt_tokens=7, max_tokens=4096) == Work(7, 4096)

    for length in range(10, 110, 10):
        estimator.observe_completed(Work(1, length), prompt_s=1.0, decode_s=1.0)

    assert estimator.expected_work(num_prompt_tokens=7, max_tokens=4096) == Work(7, 90)
    assert estimator.expected_work(num_prompt_tokens=7, max_tokens=20) == Work(7, 20)


@pytest.mark.parametrize(
    ("predicted_s", "told_s"),
    [(None, 1), (0.0, 1), (0.2, 1), (1.0, 1), (1.01, 2), (59.5, 60), (300.0, 300), (1e9, 300)],
)
def test_retry_after_is_the_prediction_rounded_up_from_1_to_300(predicted_s, told_s):
    assert retry_after_s(predicted_s) == told_s


def test_rates_are_weighted_by_tokens_so_that_tiny_prompts_do_not_count_like_long_ones():
    rate = Rate()
    for _ in range(20):
        rate.observe(1000, 1.0)
        rate.observe(10, 0.5)
    assert rate.conservative == pytest.approx(1.5 / 1010, rel=0.2)


def test_what_was_not_tokenized_is_guessed_from_its_bytes():
    estimator = ServiceEstimator(concurrency=1)
    assert estimator.unread_work(num_prompt_bytes=41) == Work(11, 0)
    estimator.observe_completed(Work(10, 30), prompt_s=1.0, decode_s=3.0)
    assert estimator.unread_work(num_prompt_bytes=0) == Work(0, 30)
    assert estimator.service_s(Work(10, 10)) == pytest.approx(2.0)
