import asyncio
import itertools
from datetime import timedelta

import pytest

from accounts.keys import mint
from inference.domain.admission_events import AdmissionEvent, FrameKind, LaneFreed, ReceiverOutcome
from inference.domain.errors import (
    GenerationFailed,
    GenerationTimeout,
    InvalidRequest,
    RequestCancelled,
    ServerOverloaded,
    ServiceUnavailable,
)
from inference.domain.events import FinishReason, Usage
from inference.domain.outcomes import Outcome, RequestSummary
from inference.domain.rejection_reason import RejectionReason
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle
from tests.clocks import FakeClock
from tests.ledgers import MemoryLedger


class Records(list[RequestSummary]):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[AdmissionEvent] = []
        self.ledger = MemoryLedger()

    def record(self, summary: RequestSummary) -> None:
        self.append(summary)

    def record_event(self, event: AdmissionEvent) -> None:
        self.events.append(event)


def begin(clock: FakeClock) -> tuple[RequestLifecycle, Records]:
    records = Records()
    identity = RequestIdentity("id-1", "chat.completions", user_id=3, key_id=4)
    return RequestLifecycle(identity, recorder=records, ledger=records.ledger, clock=clock), records


async def test_a_completed_request_leaves_one_record_with_its_times():
    clock = FakeClock()
    lifecycle, records = begin(clock)
    lifecycle.note_request(model="m", is_stream=True)
    clock.advance(0.5)
    lifecycle.note_submitted(num_prompt_tokens=5, max_tokens=9)
    lifecycle.meter.start(clock.now + 0.5, num_cached_tokens=2)
    for num_tokens, at_s in ((0, 1.0), (1, 1.5), (6, 4.5)):
        lifecycle.meter.count(num_tokens, clock.now + at_s)
    clock.advance(5.5)

    lifecycle.complete(FinishReason.LENGTH)

    (record,) = records
    assert (record.outcome, record.status, record.error_code) == (Outcome.COMPLETED, 200, None)
    assert (record.submitted_s, record.started_s, record.queue_s) == (0.5, 1, 0.5)
    assert (record.first_token_s, record.time_per_token_s, record.total_s) == (2, 0.5, 6)
    assert record.max_tokens == 9
    assert record.finished_at - record.created_at == timedelta(seconds=6)
    assert records.ledger.records == [record]
    assert (record.model, record.is_stream, record.usage) == ("m", True, Usage(5, 7, 2))
    assert (record.user_id, record.key_id, record.finish_reason) == (3, 4, FinishReason.LENGTH)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InvalidRequest("x"), Outcome.REJECTED),
        (ServiceUnavailable("x"), Outcome.REJECTED),
        (GenerationFailed("x"), Outcome.BACKEND_ERROR),
        (GenerationTimeout("x"), Outcome.TIMED_OUT),
        (RequestCancelled("x"), Outcome.CANCELLED),
    ],
)
async def test_errors_are_told_apart(error, outcome):
    lifecycle, records = begin(FakeClock())

    lifecycle.fail(error)

    assert records[0].outcome is outcome
    assert (records[0].status, records[0].error_code) == (error.status, error.code)


async def test_the_reason_of_a_refusal_by_admission_is_in_the_record():
    lifecycle, records = begin(FakeClock())

    lifecycle.fail(ServerOverloaded("full", reason=RejectionReason.QUEUE_FULL))

    assert records[0].rejection_reason is RejectionReason.QUEUE_FULL


ENDINGS = {
    "complete": lambda lifecycle: lifecycle.complete(FinishReason.STOP),
    "fail": lambda lifecycle: lifecycle.fail(GenerationFailed("x")),
    "disconnect": lambda lifecycle: lifecycle.disconnect(),
    "lose": lambda lifecycle: lifecycle.lose(
        ReceiverOutcome.STALLED, frame_kind=FrameKind.IN_FLIGHT, stall_limit_s=10.0
    ),
    "cancel": lambda lifecycle: lifecycle.cancel(),
}
FIRST = {
    "complete": Outcome.COMPLETED,
    "fail": Outcome.BACKEND_ERROR,
    "disconnect": Outcome.CLIENT_DISCONNECT,
    "lose": Outcome.CLIENT_DISCONNECT,
    "cancel": Outcome.CANCELLED,
}


@pytest.mark.parametrize("order", list(itertools.product(ENDINGS, repeat=3)))
async def test_whoever_ends_it_first_decides_and_there_is_one_record(order):
    lifecycle, records = begin(FakeClock())

    for name in order:
        ENDINGS[name](lifecycle)

    assert [r.outcome for r in records] == [FIRST[order[0]]]
    assert lifecycle.is_ended


@pytest.mark.parametrize("outcome", list(ReceiverOutcome))
@pytest.mark.parametrize("kind", list(FrameKind))
async def test_a_lost_reader_is_told_apart_by_event_and_record(outcome, kind):
    lifecycle, records = begin(FakeClock())
    lifecycle.meter.start(1001.0, num_cached_tokens=0)

    lifecycle.lose(outcome, frame_kind=kind, stall_limit_s=10.0)

    assert records.events == [LaneFreed("id-1", outcome, kind, 10.0)]
    assert (records[0].outcome, records[0].error_code) == (Outcome.CLIENT_DISCONNECT, outcome.value)


async def test_a_reader_lost_in_the_last_frames_does_not_unmake_a_complete_answer():
    lifecycle, records = begin(FakeClock())
    lifecycle.meter.start(1001.0, num_cached_tokens=0)
    lifecycle.complete(FinishReason.STOP)

    lifecycle.lose(ReceiverOutcome.STALLED, frame_kind=FrameKind.TERMINAL, stall_limit_s=10.0)

    assert [record.outcome for record in records] == [Outcome.COMPLETED]
    assert len(records.events) == 1


async def test_a_service_that_ends_refuses_who_waits_and_fails_who_runs():
    waiting, running = begin(FakeClock()), begin(FakeClock())
    running[0].meter.start(1001.0, num_cached_tokens=0)

    for lifecycle, _ in (waiting, running):
        lifecycle.fail(ServiceUnavailable("stopping"))

    assert [waiting[1][0].outcome, running[1][0].outcome] == [Outcome.REJECTED, Outcome.BACKEND_ERROR]


async def test_the_session_is_in_the_record():
    lifecycle, records = begin(FakeClock())
    lifecycle.note_session(42, is_ignored=False)
    other, others = begin(FakeClock())
    other.note_session(None, is_ignored=True)

    lifecycle.complete(FinishReason.STOP)
    other.complete(FinishReason.STOP)

    assert (records[0].session, records[0].was_session_ignored) == (42, False)
    assert (others[0].session, others[0].was_session_ignored) == (None, True)


async def test_a_reader_that_leaves_while_it_waits_had_no_lane_to_be_freed():
    lifecycle, records = begin(FakeClock())

    lifecycle.lose(ReceiverOutcome.DROPPED, frame_kind=FrameKind.IN_FLIGHT, stall_limit_s=10.0)

    assert records.events == []
    assert records[0].error_code == "receiver_dropped"


async def test_a_request_that_could_not_be_recorded_is_not_opened():
    lifecycle, records = begin(FakeClock())
    records.ledger.fault = "the disk is full"

    with pytest.raises(ServiceUnavailable, match="the disk is full"):
        lifecycle.open()

    assert records.ledger.opened == []


async def test_while_it_runs_its_record_would_be_that_of_an_interrupted_one():
    clock = FakeClock()
    lifecycle, records = begin(clock)
    lifecycle.open()
    lifecycle.note_request(model="m", is_stream=True, end_user="eve", metadata={"a": "b"})
    lifecycle.note_submitted(num_prompt_tokens=5, max_tokens=9)
    (opened,), (noted,) = records.ledger.opened, records.ledger.noted
    lifecycle.meter.start(clock.now, num_cached_tokens=3)
    lifecycle.meter.count(4, clock.now)

    running = lifecycle.summary_now()

    assert {opened.outcome, noted.outcome, running.outcome} == {Outcome.INTERRUPTED}
    assert (opened.model, opened.usage) == ("", None)
    assert (noted.model, noted.max_tokens, noted.usage) == ("m", 9, None)
    assert (noted.end_user, noted.metadata) == ("eve", {"a": "b"})
    assert running.usage == Usage(5, 4, 3)
    assert {opened.record_id, noted.record_id, running.record_id} == {lifecycle.record_id}
    assert list(records) == []


async def test_who_waits_for_the_record_may_leave_and_others_still_wait():
    lifecycle, records = begin(FakeClock())
    records.ledger.is_quick = False
    lifecycle.complete(FinishReason.STOP)
    impatient, patient = (asyncio.ensure_future(lifecycle.recorded()) for _ in range(2))
    await asyncio.sleep(0)

    impatient.cancel()
    await asyncio.sleep(0)
    assert impatient.cancelled() and not patient.done()
    records.ledger.make_safe()

    await patient


async def test_what_was_used_is_told_once_and_not_before_it_is_on_record():
    lifecycle, records = begin(FakeClock())
    records.ledger.is_quick = False
    told = []
    lifecycle.when_ended(told.append)
    lifecycle.note_submitted(num_prompt_tokens=5, max_tokens=9)
    lifecycle.meter.start(1.0, num_cached_tokens=2)
    lifecycle.meter.count(3, 2.0)

    lifecycle.complete(FinishReason.STOP)
    lifecycle.cancel()
    await asyncio.sleep(0)
    assert told == []

    records.ledger.make_safe()
    await asyncio.sleep(0)
    assert told == [Usage(5, 3, 2)]


async def test_who_never_had_a_lane_gives_back_at_once():
    told = []
    lifecycle, _ = begin(FakeClock())
    lifecycle.when_ended(told.append)
    lifecycle.note_submitted(num_prompt_tokens=5, max_tokens=9)

    lifecycle.fail(ServerOverloaded("full"))

    assert told == [None]


async def test_a_key_that_was_sent_as_something_else_is_not_recorded():
    lifecycle, records = begin(FakeClock())
    key = mint().plaintext

    lifecycle.note_request(model=key, is_stream=False, end_user=key, metadata={key: f"is {key}"})
    lifecycle.fail(InvalidRequest("x"))

    (record,) = records
    assert record.model == f"{key[:16]}…"
    assert key[16:-4] not in repr(record)
