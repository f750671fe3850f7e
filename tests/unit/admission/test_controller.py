import pytest

from inference.admission.controller import AdmissionController
from inference.domain.admission import Submission
from inference.domain.errors import ContextLengthExceeded, ServerOverloaded, ServiceUnavailable
from inference.domain.requests import GenerationRequest
from tests.admission_parts import NoCache, tell_nobody


def submission(name: str = "r", *, prompt: int = 10, max_tokens: int = 10) -> Submission:
    return Submission(GenerationRequest(name, tuple(range(prompt)), max_tokens), object(), 0.0)


def controller(*, lanes: int = 2, waiting: int = 16, cells: int = 1000) -> AdmissionController:
    return AdmissionController(num_lanes=lanes, max_waiting=waiting, num_cells=cells, record=tell_nobody)


def test_grants_in_order_of_arrival():
    admission = controller()
    for name in "abc":
        admission.submit(submission(name))

    grants = [admission.elect(NoCache()) for _ in range(3)]

    assert [g.submission.request.request_id for g in grants if g] == ["a", "b", "c"]
    assert admission.elect(NoCache()) is None
    admission.check_integrity()


def test_nobody_overtakes_a_first_one_that_does_not_fit_yet():
    admission = controller(cells=100)
    admission.submit(submission("big", prompt=80))
    big = admission.elect(NoCache())
    admission.submit(submission("also big", prompt=80))
    admission.submit(submission("small", prompt=1))

    assert admission.elect(NoCache()) is None
    assert big is not None
    big.release()
    second = admission.elect(NoCache())
    assert second is not None and second.submission.request.request_id == "also big"


def test_a_withdrawn_ticket_is_never_elected_and_a_taken_one_cannot_be_withdrawn():
    admission = controller()
    first, second = admission.submit(submission("a")), admission.submit(submission("b"))

    assert first.withdraw() is True
    assert first.withdraw() is False
    grant = admission.elect(NoCache())
    assert grant is not None and grant.submission.request.request_id == "b"
    assert second.withdraw() is False


def test_release_is_effective_once():
    admission = controller()
    admission.submit(submission())
    grant = admission.elect(NoCache())
    assert grant is not None

    grant.release()
    grant.release()

    statistics = admission.statistics()
    assert statistics.num_granted == 0
    assert statistics.budget.num_reserved_tokens == 0
    admission.check_integrity()


def test_an_impossible_request_is_not_disguised_as_overload():
    admission = controller(lanes=1, waiting=0, cells=50)
    admission.submit(submission())
    with pytest.raises(ServerOverloaded):
        admission.submit(submission())

    with pytest.raises(ContextLengthExceeded):
        admission.submit(submission(prompt=51))


def test_a_burst_into_an_idle_service_may_fill_lanes_and_queue():
    admission = controller(lanes=2, waiting=3)
    for _ in range(5):
        admission.submit(submission())

    with pytest.raises(ServerOverloaded):
        admission.submit(submission())


def test_closing_returns_the_waiting_and_refuses_newcomers_with_the_first_reason():
    admission = controller()
    waiting = [submission(name) for name in "ab"]
    for each in waiting:
        admission.submit(each)

    assert admission.close(ServiceUnavailable("draining")) == waiting
    assert admission.close(ServiceUnavailable("dead")) == []
    with pytest.raises(ServiceUnavailable, match="draining"):
        admission.submit(submission())
    assert admission.statistics().is_open is False
