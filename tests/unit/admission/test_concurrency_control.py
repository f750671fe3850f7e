import pytest

from inference.admission.concurrency import ConcurrencySettings
from inference.admission.concurrency_control import ConcurrencyControl
from inference.domain.admission_events import LimitAction, LimitReason
from inference.domain.timings import Timings

TIMINGS = Timings(num_prompt_tokens=50, num_predicted_tokens=50, prompt_s=0.05, predicted_s=0.05)


def adaptive(window: int = 1) -> ConcurrencyControl:
    settings = ConcurrencySettings(is_adaptive=True, initial_limit=1, window=window)
    return ConcurrencyControl(settings, num_lanes=4)


def test_without_the_rule_the_limit_is_the_lanes_and_nothing_changes_it():
    control = ConcurrencyControl(ConcurrencySettings(), num_lanes=4)
    demand = control.demand(has_waited=True, num_waiting=9, now_ts=0.0)
    assert control.limiter.limit == 4
    assert control.observe_completed(demand, TIMINGS, num_waiting=9, now_ts=1.0) is None
    assert control.observe_failed() is None
    assert control.limiter.limit == 4


def test_what_the_rule_decides_is_in_force_at_once():
    control = adaptive()
    demand = control.demand(has_waited=True, num_waiting=0, now_ts=0.0)
    decision = control.observe_completed(demand, TIMINGS, num_waiting=0, now_ts=1.0)
    assert decision is not None and decision.action is LimitAction.PROBE
    assert control.limiter.limit == 2
    failed = control.observe_failed()
    assert failed is not None and failed.reason is LimitReason.GENERATION_FAILURE
    assert control.limiter.limit == 1


@pytest.mark.parametrize(
    ("has_waited", "had_queue", "comes", "waits_now"),
    [(True, 0, 0, 0), (False, 1, 0, 0), (False, 0, 1, 0), (False, 0, 0, 1)],
)
def test_demand_is_who_waited_before_behind_since_or_now(has_waited, had_queue, comes, waits_now):
    control = adaptive()
    demand = control.demand(has_waited=has_waited, num_waiting=had_queue, now_ts=0.0)
    for _ in range(comes):
        control.note_queued()
    decision = control.observe_completed(demand, TIMINGS, num_waiting=waits_now, now_ts=1.0)
    assert decision is not None and decision.action is LimitAction.PROBE


def test_without_any_of_these_there_was_no_demand():
    control = adaptive()
    demand = control.demand(has_waited=False, num_waiting=0, now_ts=0.0)
    decision = control.observe_completed(demand, TIMINGS, num_waiting=0, now_ts=1.0)
    assert decision is not None and decision.reason is LimitReason.NO_SUSTAINED_DEMAND


def test_a_request_knows_whether_it_took_the_last_permit():
    control = adaptive()
    assert not control.demand(has_waited=False, num_waiting=0, now_ts=0.0).was_at_capacity
    assert control.limiter.try_acquire() is not None
    assert control.demand(has_waited=False, num_waiting=0, now_ts=0.0).was_at_capacity
