import pytest

from inference.admission.queue import AdmissionQueue, default_max_queue
from inference.domain.admission import Submission
from inference.domain.errors import ServerOverloaded
from inference.domain.requests import GenerationRequest


def submission(name: str) -> Submission:
    return Submission(GenerationRequest(name, (1, 2, 3), 5), sink=object(), submitted_ts=0.0)


@pytest.mark.parametrize(("lanes", "limit"), [(1, 16), (2, 16), (4, 32), (16, 128), (32, 256), (200, 256)])
def test_the_limit_is_eight_for_each_lane_within_16_and_256(lanes, limit):
    assert default_max_queue(lanes) == limit


def test_oldest_first_and_a_withdrawal_from_the_middle_keeps_the_order():
    queue = AdmissionQueue(max_waiting=10)
    a, b, c = submission("a"), submission("b"), submission("c")
    for each in (a, b, c):
        queue.push(each, num_free_lanes=0)

    assert queue.remove(b) is True
    assert queue.remove(b) is False
    assert queue.first() is a
    assert queue.take_all() == [a, c]
    assert queue.first() is None


def test_a_full_queue_refuses_with_retry_after():
    queue = AdmissionQueue(max_waiting=1)
    queue.push(submission("a"), num_free_lanes=0)

    with pytest.raises(ServerOverloaded) as refusal:
        queue.push(submission("b"), num_free_lanes=0)

    assert refusal.value.retry_after_s == 1
    assert queue.statistics().num_waiting == 1


def test_free_lanes_count_as_room():
    queue = AdmissionQueue(max_waiting=1)
    for name in "abc":
        queue.push(submission(name), num_free_lanes=2)

    with pytest.raises(ServerOverloaded):
        queue.push(submission("d"), num_free_lanes=2)
