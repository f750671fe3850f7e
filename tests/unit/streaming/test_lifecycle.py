import itertools

import pytest

from inference.domain.admission_events import AdmissionEvent
from inference.domain.errors import GenerationFailed, InvalidRequest, ServerOverloaded, ServiceUnavailable
from inference.domain.events import FinishReason, Usage
from inference.domain.outcomes import Outcome, RequestSummary
from inference.domain.rejection_reason import RejectionReason
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle
from tests.clocks import FakeClock


class Records(list[RequestSummary]):
    def record(self, summary: RequestSummary) -> None:
        self.append(summary)

    def record_event(self, event: AdmissionEvent) -> None:
        raise AssertionError("a lifecycle has summaries only")


def begin(clock: FakeClock) -> tuple[RequestLifecycle, Records]:
    records = Records()
    identity = RequestIdentity("id-1", "chat.completions", user_id=3, key_id=4)
    return RequestLifecycle(identity, recorder=records, clock=clock), records


def test_a_completed_request_leaves_one_record_with_its_times():
    clock = FakeClock()
    lifecycle, records = begin(clock)
    lifecycle.note_request(model="m", is_stream=True)
    lifecycle.note_started(clock.now + 1)
    lifecycle.note_usage(Usage(5, 7, 2), first_token_ts=clock.now + 2)
    clock.advance(3)

    lifecycle.complete(FinishReason.LENGTH)

    (record,) = records
    assert (record.outcome, record.status, record.error_code) == (Outcome.COMPLETED, 200, None)
    assert (record.started_s, record.first_token_s, record.total_s) == (1, 2, 3)
    assert (record.model, record.is_stream, record.usage) == ("m", True, Usage(5, 7, 2))
    assert (record.user_id, record.key_id, record.finish_reason) == (3, 4, FinishReason.LENGTH)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InvalidRequest("x"), Outcome.REJECTED),
        (ServiceUnavailable("x"), Outcome.REJECTED),
        (GenerationFailed("x"), Outcome.BACKEND_ERROR),
    ],
)
def test_errors_are_told_apart(error, outcome):
    lifecycle, records = begin(FakeClock())

    lifecycle.fail(error)

    assert records[0].outcome is outcome
    assert (records[0].status, records[0].error_code) == (error.status, error.code)


def test_the_reason_of_a_refusal_by_admission_is_in_the_record():
    lifecycle, records = begin(FakeClock())

    lifecycle.fail(ServerOverloaded("full", reason=RejectionReason.QUEUE_FULL))

    assert records[0].rejection_reason is RejectionReason.QUEUE_FULL


ENDINGS = {
    "complete": lambda lifecycle: lifecycle.complete(FinishReason.STOP),
    "fail": lambda lifecycle: lifecycle.fail(GenerationFailed("x")),
    "disconnect": lambda lifecycle: lifecycle.disconnect(),
}
FIRST = {
    "complete": Outcome.COMPLETED,
    "fail": Outcome.BACKEND_ERROR,
    "disconnect": Outcome.CLIENT_DISCONNECT,
}


@pytest.mark.parametrize("order", list(itertools.product(ENDINGS, repeat=3)))
def test_whoever_ends_it_first_decides_and_there_is_one_record(order):
    lifecycle, records = begin(FakeClock())

    for name in order:
        ENDINGS[name](lifecycle)

    assert [r.outcome for r in records] == [FIRST[order[0]]]
    assert lifecycle.is_ended
