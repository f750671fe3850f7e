"""The order of the three levels, driven without a controller."""

from __future__ import annotations

from collections import Counter

import pytest

from inference.admission.estimator import ServiceEstimator, Work
from inference.admission.queue import AdmissionQueue, default_max_queue
from inference.admission.ranking import rank_waiters
from inference.admission.waiter import Waiter
from inference.domain.priority import PriorityClass
from tests.admission_parts import NoCache, make_submission

EVERYTHING = 10**9


class Line:
    """A queue of which the test elects, with tokens served by user."""

    def __init__(self, max_waiting: int = 256, max_firsts: int = 0) -> None:
        self.queue = AdmissionQueue(max_waiting=max_waiting, max_firsts=max_firsts)
        self.served: Counter[int] = Counter()

    def wait(self, name: str, **kinds: object) -> Waiter:
        waiter = Waiter(make_submission(name, **kinds))  # type: ignore[arg-type]
        self.queue.push(waiter)
        return waiter

    def elect(self, num_free_tokens: int = EVERYTHING) -> str:
        found = self.queue.shortlist(num_free_tokens, lambda user_id: self.served[user_id])
        if not found.prompts.waiters:
            return ""
        winner = rank_waiters(found.prompts, ages=found.ages, affinity=NoCache())[0]
        assert self.queue.remove(winner, is_elected=True)
        self.served[winner.user_id] += winner.num_needed_tokens
        self.queue.check_integrity()
        return winner.submission.request.request_id


@pytest.mark.parametrize(("lanes", "limit"), [(1, 16), (2, 16), (4, 32), (16, 128), (32, 256), (200, 256)])
def test_the_limit_is_eight_for_each_lane_within_16_and_256(lanes, limit):
    assert default_max_queue(lanes) == limit


def test_equal_prompts_of_one_user_go_in_the_order_of_arrival_and_leave_from_anywhere():
    line = Line()
    waiters = {name: line.wait(name) for name in "abcd"}
    assert line.queue.remove(waiters["b"]) is True
    assert line.queue.remove(waiters["b"]) is False
    assert [line.elect() for _ in range(4)] == ["a", "c", "d", ""]


def test_the_most_urgent_class_goes_first_whatever_its_users_got():
    line = Line()
    line.served[2] = 10**6
    line.wait("batch", priority=PriorityClass.BATCH)
    line.wait("normal", priority=PriorityClass.NORMAL)
    line.wait("interactive", priority=PriorityClass.INTERACTIVE, user=2)
    assert [line.elect() for _ in range(3)] == ["interactive", "normal", "batch"]


def test_the_user_who_got_least_goes_first_and_of_equals_the_longest_waiting():
    line = Line()
    for number in range(3):
        line.wait(f"a{number}", user=1, prompt=100)
    line.wait("b0", user=2, prompt=10)
    line.wait("c0", user=3, prompt=10)
    assert [line.elect() for _ in range(5)] == ["a0", "b0", "c0", "a1", "a2"]


def test_a_family_of_prompts_goes_together_but_two_equal_families_take_turns():
    line = Line()
    for name, prompt in [("x1", (1, 2, 3)), ("y1", (7, 8, 1)), ("x2", (1, 2, 4)), ("y2", (7, 8, 2))]:
        line.wait(name, prompt=prompt)
    assert [line.elect(), line.elect()] == ["x1", "y1"]


def test_who_does_not_fit_is_passed_over_by_those_who_do_at_most_32_times():
    line = Line()
    line.wait("large", prompt=400)
    for number in range(40):
        line.wait(f"s{number}", prompt=(5, number))
    passed = [line.elect(100) for _ in range(32)]
    assert all(name.startswith("s") for name in passed)
    assert line.elect(100) == ""
    assert line.elect(409) == ""
    assert line.elect(410) == "large"
    assert line.elect(100).startswith("s")


def test_a_user_is_passed_over_by_later_ones_at_most_32_times():
    line = Line()
    line.served[1] = 10**9
    line.wait("greedy", user=1)
    for number in range(2, 40):
        line.wait(f"u{number}", user=number)
    names = [line.elect() for _ in range(34)]
    assert names.index("greedy") == 32


def test_a_user_who_does_not_fit_and_was_passed_over_often_enough_is_waited_for():
    line = Line()
    line.wait("large", user=1, prompt=400)
    for number in range(40):
        line.wait(f"s{number}", user=2, prompt=(number,))
    assert all(line.elect(100).startswith("s") for _ in range(32))
    assert line.elect(100) == ""
    assert line.elect(500) == "large"


def test_a_class_is_passed_over_at_most_32_times_and_waited_for_where_it_does_not_fit():
    line = Line()
    line.wait("batch", priority=PriorityClass.BATCH, prompt=400)
    for number in range(40):
        line.wait(f"i{number}", priority=PriorityClass.INTERACTIVE, prompt=(number,))
    assert all(line.elect().startswith("i") for _ in range(32))
    assert line.elect(100) == ""
    assert line.elect() == "batch"
    assert line.elect().startswith("i")


def test_while_a_senior_of_a_class_is_waited_for_a_lower_class_may_not_take_what_it_needs():
    line = Line()
    line.wait("large", prompt=400)
    for number in range(33):
        line.wait(f"s{number}", prompt=(number,))
    for _ in range(32):
        line.elect(100)
    line.wait("batch", priority=PriorityClass.BATCH, prompt=1)
    assert line.elect(100) == ""


def test_a_lower_class_uses_what_is_too_little_for_the_higher_one():
    line = Line()
    line.wait("large", prompt=400)
    line.wait("batch", priority=PriorityClass.BATCH, prompt=1)
    assert line.elect(100) == "batch"


def test_who_may_start_at_once_goes_first_and_is_no_turn_for_those_who_wait():
    line = Line(max_waiting=2)
    assert line.queue.may_start(50, num_lanes=2, num_free_tokens=100)
    first, second = Waiter(make_submission("first")), Waiter(make_submission("second"))
    for waiter in (first, second):
        assert line.queue.may_start(20, num_lanes=2, num_free_tokens=100)
        line.queue.start(waiter)
    assert not line.queue.may_start(20, num_lanes=2, num_free_tokens=100)
    assert not line.queue.may_start(61, num_lanes=3, num_free_tokens=100)
    line.wait("interactive", priority=PriorityClass.INTERACTIVE)

    statistics = line.queue.statistics()
    assert (statistics.num_waiting, statistics.num_starting) == (1, 2)
    assert [line.elect(100) for _ in range(3)] == ["first", "second", "interactive"]


def test_nobody_starts_at_once_while_somebody_waits():
    line = Line()
    waiter = line.wait("waits", prompt=900)
    assert not line.queue.may_start(1, num_lanes=8, num_free_tokens=100)
    line.queue.remove(waiter)
    assert line.queue.may_start(1, num_lanes=8, num_free_tokens=100)


def test_of_other_users_only_what_they_want_beyond_the_newcomers_share_goes_after_it():
    line = Line()
    estimator = ServiceEstimator(concurrency=1)
    for number in range(4):
        waiter = line.wait(f"a{number}", user=1)
        waiter.work = estimator.reserve_queued(Work(60, 40), allowed_s=None)
    newcomer = Waiter(make_submission("n", user=2))

    def behind() -> Work:
        return line.queue.work_behind(newcomer, lambda user_id: line.served[user_id])

    assert behind() == Work(240, 160)
    line.served[2] = 100
    assert behind() == Work(180, 120)
    line.served[1] = 50
    assert behind() == Work(210, 140)
    line.served[2] = 10_000
    assert behind() == Work(0, 0)


def test_a_full_queue_is_full_and_everybody_can_be_taken_out_in_order():
    line = Line(max_waiting=3)

    def has_place(user_id: int) -> bool:
        return line.queue.has_place(user_id=user_id, priority=PriorityClass.BATCH)

    waiters = [line.wait(name, user=ord(name), priority=PriorityClass.BATCH) for name in "ab"]
    assert has_place(1)
    waiters.append(line.wait("c", priority=PriorityClass.INTERACTIVE))
    assert not has_place(1)
    assert line.queue.take_all() == waiters
    assert line.queue.num_waiting == 0
    assert waiters[0] not in line.queue
    line.queue.check_integrity()


def test_beyond_the_limit_there_is_a_place_for_who_has_nothing_waiting_in_its_class():
    line = Line(max_waiting=2, max_firsts=1)

    def has_place(user_id: int, priority: PriorityClass) -> bool:
        return line.queue.has_place(user_id=user_id, priority=priority)

    for _ in range(2):
        line.wait("flood", user=1, priority=PriorityClass.BATCH)
    assert not has_place(1, PriorityClass.BATCH)
    assert has_place(2, PriorityClass.BATCH)
    assert has_place(1, PriorityClass.INTERACTIVE)
    line.wait("other", user=2, priority=PriorityClass.BATCH)
    assert not has_place(3, PriorityClass.BATCH)
    assert line.elect() == "flood"
    assert not has_place(1, PriorityClass.BATCH)
    assert has_place(3, PriorityClass.BATCH)
