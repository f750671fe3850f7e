import threading

import pytest

from inference.admission.concurrency import ConcurrencySettings
from inference.admission.controller import AdmissionController
from inference.domain.admission_events import Admitted, ConcurrencyAdapted, LimitAction, Rejected
from inference.domain.backend import Newcomer
from inference.domain.errors import ContextLengthExceeded, ServerOverloaded, ServiceUnavailable, SkippyError
from inference.domain.priority import PriorityClass
from inference.domain.rejection_reason import RejectionReason
from inference.domain.timings import Timings
from tests.admission_parts import Events, KnownCache, NoCache, make_admission, make_submission, name_of
from tests.clocks import FakeClock

CACHE = NoCache()
SECOND_FOR_TOKEN = Timings(num_prompt_tokens=10, num_predicted_tokens=10, prompt_s=10.0, predicted_s=10.0)


def test_grants_lane_and_tokens_together_up_to_the_lanes():
    admission = make_admission(num_lanes=2)
    for name in "abc":
        admission.submit(make_submission(name))
    grants = [admission.elect(CACHE) for _ in range(3)]

    assert [name_of(grant) for grant in grants] == ["a", "b", ""]
    statistics = admission.statistics()
    assert (statistics.num_granted, statistics.limiter.num_held) == (2, 2)
    assert statistics.budget.num_reserved_tokens == 40
    admission.check_integrity()
    assert grants[0] is not None
    grants[0].release()
    assert name_of(admission.elect(CACHE)) == "c"


def test_one_that_waits_for_tokens_holds_neither_lane_nor_tokens():
    admission = make_admission(num_lanes=2, num_cells=100)
    admission.submit(make_submission("big", prompt=80))
    big = admission.elect(CACHE)
    admission.submit(make_submission("also big", prompt=80))

    assert admission.elect(CACHE) is None
    statistics = admission.statistics()
    assert (statistics.limiter.num_held, statistics.budget.num_reserved_tokens) == (1, 90)
    assert big is not None
    big.release()
    assert name_of(admission.elect(CACHE)) == "also big"


def test_a_newcomer_does_not_start_at_once_while_somebody_waits_though_a_lane_is_free():
    admission = make_admission(num_lanes=2, num_cells=100)
    admission.submit(make_submission("big", prompt=80))
    admission.elect(CACHE)
    admission.submit(make_submission("also big", prompt=80))
    admission.submit(make_submission("small", prompt=1, max_tokens=1))

    assert admission.statistics().queue.num_starting == 0
    assert admission.statistics().queue.num_waiting == 2
    # It is ranked: what does not fit yet may be passed over, within the bound.
    assert name_of(admission.elect(CACHE)) == "small"


def test_four_waiters_go_one_by_one_through_one_lane():
    admission = make_admission(num_lanes=1)
    for name in "abcd":
        admission.submit(make_submission(name))
    order = []
    while (grant := admission.elect(CACHE)) is not None:
        order.append(name_of(grant))
        assert admission.elect(CACHE) is None
        grant.release()
    assert order == ["a", "b", "c", "d"]


def test_a_waiter_is_passed_over_at_most_32_times_by_smaller_work():
    admission = make_admission(num_lanes=4, num_cells=1000, max_waiting=256)
    admission.submit(make_submission("first", prompt=900))
    first = admission.elect(CACHE)
    admission.submit(make_submission("large", prompt=900))
    for number in range(50):
        admission.submit(make_submission(f"s{number}", prompt=(number,), max_tokens=1))
    for turn in range(32):
        grant = admission.elect(CACHE)
        assert grant is not None and name_of(grant) != "large", turn
        grant.release()
    assert admission.elect(CACHE) is None
    assert first is not None
    first.release()
    assert name_of(admission.elect(CACHE)) == "large"
    assert name_of(admission.elect(CACHE)).startswith("s")


def test_a_withdrawn_ticket_is_never_elected_and_a_taken_one_cannot_be_withdrawn():
    admission = make_admission()
    first, second = admission.submit(make_submission("a")), admission.submit(make_submission("b"))

    assert first.withdraw() is True
    assert first.withdraw() is False
    assert name_of(admission.elect(CACHE)) == "b"
    assert second.withdraw() is False
    admission.check_integrity()


def test_withdrawing_a_queued_duplicate_frees_its_place():
    admission = make_admission(num_lanes=1, max_waiting=1)
    admission.submit(make_submission("a"))
    queued = admission.submit(make_submission("b"))
    with pytest.raises(ServerOverloaded):
        admission.submit(make_submission("c"))
    assert queued.withdraw() is True
    admission.submit(make_submission("c"))


def test_the_withdrawal_of_one_that_is_waited_for_lets_the_others_go():
    admission = make_admission(num_lanes=4, num_cells=1000, max_waiting=256)
    admission.submit(make_submission("first", prompt=900))
    admission.elect(CACHE)
    large = admission.submit(make_submission("large", prompt=900))
    for number in range(40):
        admission.submit(make_submission(f"s{number}", prompt=(number,), max_tokens=1))
    for _ in range(32):
        grant = admission.elect(CACHE)
        assert grant is not None
        grant.release()
    assert admission.elect(CACHE) is None
    large.withdraw()
    assert name_of(admission.elect(CACHE)).startswith("s")


def test_release_is_effective_once():
    admission = make_admission()
    admission.submit(make_submission())
    grant = admission.elect(CACHE)
    assert grant is not None
    grant.release()
    grant.release(num_output_tokens=7)

    statistics = admission.statistics()
    assert (statistics.num_granted, statistics.budget.num_reserved_tokens) == (0, 0)
    admission.check_integrity()


def test_an_impossible_request_is_not_disguised_as_overload_and_touches_nothing():
    events = Events()
    admission = make_admission(num_lanes=1, max_waiting=0, num_cells=50, events=events)
    admission.submit(make_submission())
    with pytest.raises(ServerOverloaded):
        admission.submit(make_submission())

    with pytest.raises(ContextLengthExceeded, match=r"61 .* 50") as refusal:
        admission.submit(make_submission("huge", prompt=51))
    assert refusal.value.reason is RejectionReason.NEVER_FITS
    assert events[-1] == Rejected("huge", RejectionReason.NEVER_FITS, 0, 0, None)
    assert admission.statistics().queue.num_starting == 1


def test_a_burst_into_an_idle_service_may_fill_lanes_and_queue():
    events = Events()
    admission = make_admission(num_lanes=2, max_waiting=3, events=events)
    for _ in range(5):
        admission.submit(make_submission())
    statistics = admission.statistics().queue
    assert (statistics.num_starting, statistics.num_waiting) == (2, 3)

    with pytest.raises(ServerOverloaded, match="queue is full: 3") as refusal:
        admission.submit(make_submission("late"))
    assert (refusal.value.reason, refusal.value.retry_after_s) == (RejectionReason.QUEUE_FULL, 1)
    assert events == [Rejected("late", RejectionReason.QUEUE_FULL, 3, 3, None)]


def newcomer(num_prompt_bytes: int, *, user: int = 1, deadline_ts: float | None = None) -> Newcomer:
    return Newcomer("e", user, PriorityClass.NORMAL, num_prompt_bytes, deadline_ts)


def measured(clock: FakeClock, *, events: Events | None = None, **kinds: int) -> AdmissionController:
    """Admission with one lane that knows a second for each token, and has 20 of them running."""
    admission = make_admission(num_lanes=1, clock=clock, events=events, **kinds)
    ticket = admission.submit(make_submission("measured"))
    grant = admission.elect(CACHE)
    assert grant is not None
    ticket.note_completed(SECOND_FOR_TOKEN)
    grant.release(num_output_tokens=10)
    admission.submit(make_submission("runs"))
    assert admission.elect(CACHE) is not None
    return admission


def test_a_wait_that_is_predicted_to_last_beyond_the_deadline_is_refused_and_leaves_nothing():
    clock, events = FakeClock(), Events()
    admission = measured(clock, events=events)
    assert admission.statistics().estimator.predicted_wait_s == pytest.approx(20)

    with pytest.raises(ServerOverloaded, match=r"20\.000 .* 19\.900") as refusal:
        admission.submit(make_submission("hasty", deadline_ts=clock.now + 19.9))

    assert (refusal.value.reason, refusal.value.retry_after_s) == (RejectionReason.PREDICTED_WAIT, 20)
    assert events[-1] == Rejected("hasty", RejectionReason.PREDICTED_WAIT, 0, 16, pytest.approx(20))
    assert admission.statistics().queue.num_waiting == 0
    admission.check_integrity()

    admission.submit(make_submission("patient", deadline_ts=clock.now + 20.1))
    admission.submit(make_submission("very patient"))
    assert admission.statistics().queue.num_waiting == 2


def test_who_may_start_at_once_is_not_refused_however_late_it_is():
    clock = FakeClock()
    admission = make_admission(num_lanes=1, clock=clock)
    admission.submit(make_submission(deadline_ts=clock.now - 1))
    assert admission.elect(CACHE) is not None


def test_a_full_queue_says_when_to_come_back():
    clock = FakeClock()
    admission = measured(clock, max_waiting=1)
    admission.submit(make_submission("waits"))
    with pytest.raises(ServerOverloaded) as refusal:
        admission.submit(make_submission("late"))
    assert refusal.value.retry_after_s == 40


def test_the_answer_is_expected_to_be_like_those_before_and_not_like_its_ceiling():
    admission = measured(FakeClock(), num_cells=10_000)
    admission.submit(make_submission("waits", max_tokens=5000))
    assert admission.statistics().estimator.queued.num_decode_tokens == 10


def test_refuse_early_speaks_up_only_where_the_queue_is_full_and_the_prompt_could_fit():
    clock, events = FakeClock(), Events()
    admission = measured(clock, events=events, max_waiting=1)
    admission.refuse_early(newcomer(num_prompt_bytes=10, deadline_ts=clock.now))
    admission.submit(make_submission("waits"))

    with pytest.raises(ServerOverloaded) as refusal:
        admission.refuse_early(newcomer(num_prompt_bytes=999))
    assert (refusal.value.reason, refusal.value.retry_after_s) == (RejectionReason.QUEUE_FULL, 40)
    assert events[-1] == Rejected("e", RejectionReason.QUEUE_FULL, 1, 1, pytest.approx(40))
    # One more byte, and it might be an impossible request: the tokens will tell.
    admission.refuse_early(newcomer(num_prompt_bytes=1000))


def test_refuse_early_knows_the_deadline_where_others_wait():
    clock = FakeClock()
    admission = measured(clock)
    admission.submit(make_submission("waits"))
    # Somebody urgent would only wait for what runs, 20 s; what it asks for is not known yet.
    admission.refuse_early(newcomer(num_prompt_bytes=10, deadline_ts=clock.now + 20.1))
    with pytest.raises(ServerOverloaded) as refusal:
        admission.refuse_early(newcomer(num_prompt_bytes=10, deadline_ts=clock.now + 19.9))
    assert refusal.value.reason is RejectionReason.PREDICTED_WAIT


def test_what_will_go_later_is_no_wait_for_a_newcomer():
    clock = FakeClock()
    admission = measured(clock)
    for number in range(3):
        admission.submit(make_submission(f"heavy {number}", user=1))
    admission.submit(make_submission("batch", user=1, priority=PriorityClass.BATCH))
    assert admission.statistics().estimator.predicted_wait_s == pytest.approx(100)

    def is_in_time(allowed_s: float, **who: object) -> bool:
        try:
            deadline_ts = clock.now + allowed_s
            admission.submit(make_submission("n", deadline_ts=deadline_ts, **who)).withdraw()  # type: ignore[arg-type]
        except ServerOverloaded as error:
            assert error.reason is RejectionReason.PREDICTED_WAIT
            return False
        return True

    # The heavy user has got 20 tokens and 20 are running, so another one waits for those only.
    assert is_in_time(20.1, user=2) and not is_in_time(19.9, user=2)
    assert is_in_time(80.1, user=1) and not is_in_time(79.9, user=1)
    assert is_in_time(20.1, user=1, priority=PriorityClass.INTERACTIVE)
    assert is_in_time(100.1, user=1, priority=PriorityClass.BATCH)
    assert not is_in_time(99.9, user=1, priority=PriorityClass.BATCH)
    admission.check_integrity()


def test_one_whose_time_is_over_is_told_when_to_come_back():
    events = Events()
    admission = measured(FakeClock(), events=events)
    error = admission.reject_overdue(request_id="slow", user_id=1, allowed_s=60.0)
    assert (error.status, error.reason, error.retry_after_s) == (429, RejectionReason.ADMISSION_TIMEOUT, 20)
    assert "60 seconds" in error.message
    assert events[-1] == Rejected("slow", RejectionReason.ADMISSION_TIMEOUT, 0, 16, pytest.approx(20))


def test_closing_returns_the_waiting_and_refuses_newcomers_with_the_first_reason():
    events = Events()
    admission = make_admission(events=events)
    waiting = [make_submission(name) for name in "abc"]
    for each in waiting:
        admission.submit(each)

    draining = ServiceUnavailable("draining", reason=RejectionReason.DRAINING)
    assert admission.close(draining) == waiting
    assert admission.close(ServiceUnavailable("dead")) == []
    assert [(e.request_id, e.reason) for e in events if isinstance(e, Rejected)] == [
        (name, RejectionReason.DRAINING) for name in "abc"
    ]
    with pytest.raises(ServiceUnavailable, match="draining") as refusal:
        admission.submit(make_submission(prompt=5000))
    assert refusal.value.reason is RejectionReason.DRAINING
    assert refusal.value.retry_after_s is not None
    with pytest.raises(ServiceUnavailable, match="draining"):
        admission.refuse_early(newcomer(num_prompt_bytes=10))
    assert admission.statistics().is_open is False
    admission.check_integrity()


def test_refusals_for_one_reason_do_not_share_a_traceback():
    admission = make_admission()
    admission.close(ServiceUnavailable("draining"))
    seen: list[SkippyError] = []
    for _ in range(2):
        try:
            admission.submit(make_submission())
        except SkippyError as error:
            seen.append(error)
    assert seen[0] is not seen[1]
    assert seen[1].__traceback__ is not None and seen[1].__traceback__.tb_next is not None
    assert seen[1].__traceback__.tb_next.tb_next is None


def test_an_admission_is_told_once_with_its_numbers():
    clock, events = FakeClock(), Events()
    admission = make_admission(num_lanes=1, clock=clock, events=events)
    first = admission.submit(make_submission("first", submitted_ts=clock.now))
    second = admission.submit(make_submission("second", prompt=20, submitted_ts=clock.now))
    first.note_started()
    assert events == []
    grant = admission.elect(CACHE)
    clock.advance(2.5)
    for _ in range(2):
        first.note_started()
    assert grant is not None
    grant.release()
    admission.elect(CACHE)
    second.note_started()

    assert events == [
        Admitted("first", 1, 16, False, 0.0, 0.0, 20, 20, 1000),
        Admitted("second", 0, 16, True, 2.5, None, 30, 30, 1000),
    ]


def test_the_cache_is_asked_at_the_election_and_who_has_most_there_goes_first():
    admission = make_admission(num_lanes=1)
    admission.submit(make_submission("runs"))
    grant = admission.elect(CACHE)
    admission.submit(make_submission("cold", prompt=(5,) * 30))
    admission.submit(make_submission("hot", prompt=(6,) * 30))
    cache = KnownCache({6: 29})
    assert admission.elect(cache) is None
    assert cache.num_asked == 0
    assert grant is not None
    grant.release()
    assert name_of(admission.elect(cache)) == "hot"


def test_nobody_is_ranked_again_until_something_has_changed():
    admission = make_admission(num_lanes=3, num_cells=100)
    admission.submit(make_submission("big", prompt=85))
    admission.elect(CACHE)
    for name in "ab":
        admission.submit(make_submission(name, prompt=20))
    assert admission.elect(CACHE) is None
    admission._queue.shortlist = None  # type: ignore[assignment,method-assign]
    assert admission.elect(CACHE) is None


def test_users_take_turns_by_what_they_got_and_an_early_end_gives_back_what_was_expected():
    clock = FakeClock()
    admission = make_admission(num_lanes=1, num_cells=100_000, clock=clock)
    admission.submit(make_submission("a0", user=1, prompt=10, max_tokens=5000))
    running = admission.elect(CACHE)
    admission.submit(make_submission("a1", user=1, prompt=10, max_tokens=10))
    admission.submit(make_submission("b0", user=2, prompt=500, max_tokens=500))
    admission.submit(make_submission("b1", user=2, prompt=500, max_tokens=500))
    assert running is not None
    running.release(num_output_tokens=1)

    order = []
    while (grant := admission.elect(CACHE)) is not None:
        order.append(name_of(grant))
        grant.release(num_output_tokens=10)
    # 11 tokens against none, then 11 against 510.
    assert order == ["b0", "a1", "b1"]


def test_classes_go_before_users():
    admission = make_admission(num_lanes=1)
    admission.submit(make_submission("runs"))
    grant = admission.elect(CACHE)
    for priority in (PriorityClass.BATCH, PriorityClass.NORMAL, PriorityClass.INTERACTIVE):
        admission.submit(make_submission(priority.value, priority=priority))
    order = []
    while grant is not None:
        grant.release()
        grant = admission.elect(CACHE)
        order.append(name_of(grant))
    assert order == ["interactive", "normal", "batch", ""]


ADAPTIVE = ConcurrencySettings(is_adaptive=True, initial_limit=1, window=2)
QUICK = Timings(num_prompt_tokens=10, num_predicted_tokens=10, prompt_s=0.1, predicted_s=0.1)


def test_the_adaptive_limit_is_enforced_told_and_used_by_the_prediction():
    clock, events = FakeClock(), Events()
    admission = make_admission(num_lanes=4, clock=clock, events=events, concurrency=ADAPTIVE)
    tickets = [admission.submit(make_submission(str(number))) for number in range(6)]
    for ticket in tickets[:2]:
        grant = admission.elect(CACHE)
        assert grant is not None
        assert admission.elect(CACHE) is None
        clock.advance(0.2)
        ticket.note_completed(QUICK)
        ticket.note_completed(QUICK)
        ticket.note_failed()
        grant.release()

    (decision,) = [event for event in events if isinstance(event, ConcurrencyAdapted)]
    assert (decision.action, decision.current_limit, decision.num_observed) == (LimitAction.PROBE, 2, 2)
    assert admission.elect(CACHE) is not None
    assert admission.elect(CACHE) is not None
    assert admission.elect(CACHE) is None
    before = admission.statistics().estimator.predicted_wait_s
    tickets[2].note_failed()
    statistics = admission.statistics()
    assert (statistics.limiter.limit, statistics.limiter.num_retiring) == (1, 1)
    assert before is not None and statistics.estimator.predicted_wait_s == pytest.approx(2 * before)
    admission.check_integrity()


def test_a_note_before_the_election_is_no_measurement():
    admission = make_admission(concurrency=ADAPTIVE)
    ticket = admission.submit(make_submission())
    ticket.note_completed(QUICK)
    ticket.note_failed()
    assert admission.statistics().estimator.num_answers == 0


def test_no_event_is_told_while_the_mutex_is_held():
    admission = make_admission(num_lanes=1, max_waiting=0)
    told: list[int] = []

    def record(event: object) -> None:
        told.append(admission.statistics().num_granted)

    admission._record = record
    ticket = admission.submit(make_submission())
    with pytest.raises(ServerOverloaded):
        admission.submit(make_submission())
    admission.elect(CACHE)
    ticket.note_started()
    admission.close(ServiceUnavailable("draining", reason=RejectionReason.DRAINING))
    assert told == [0, 1]


def test_threads_submit_and_withdraw_while_the_engine_elects():
    admission = make_admission(num_lanes=4, max_waiting=64, num_cells=2000)
    is_over = threading.Event()
    kept: list[str] = []

    def clients(number: int) -> None:
        for turn in range(150):
            name = f"{number}-{turn}"
            try:
                ticket = admission.submit(make_submission(name, prompt=(turn % 5, number, 3), user=number))
            except ServerOverloaded:
                continue
            if turn % 3 or not ticket.withdraw():
                kept.append(name)

    threads = [threading.Thread(target=clients, args=(number,)) for number in range(3)]
    granted: list[str] = []

    def engine() -> None:
        while True:
            was_over = is_over.is_set()
            grants = [grant for _ in range(4) if (grant := admission.elect(CACHE)) is not None]
            for grant in grants:
                granted.append(name_of(grant))
                grant.release(num_output_tokens=3)
            if was_over and not grants:
                return

    elector = threading.Thread(target=engine)
    for thread in (*threads, elector):
        thread.start()
    for thread in threads:
        thread.join()
    is_over.set()
    elector.join(20)
    assert sorted(granted) == sorted(kept)
    admission.check_integrity()
    assert admission.statistics().estimator.num_reservations == 0


def test_those_who_are_refused_together_are_told_to_come_back_one_after_the_other():
    clock = FakeClock()
    admission = measured(clock, max_waiting=1)
    admission.submit(make_submission("waits"))

    def told() -> int | None:
        with pytest.raises(ServerOverloaded) as refusal:
            admission.submit(make_submission("late"))
        return refusal.value.retry_after_s

    # Each would take 20 s; as long again is left to newcomers.
    assert [told(), told(), told()] == [40, 80, 120]
    clock.advance(10)
    assert told() == 150
    # What is not tokenized yet is counted by its bytes: 5 tokens, and an answer of 10.
    with pytest.raises(ServerOverloaded) as refusal:
        admission.refuse_early(newcomer(num_prompt_bytes=20))
    assert refusal.value.retry_after_s == 190
    assert told() == 220


def test_once_a_lane_is_free_and_nobody_waits_the_past_is_forgotten():
    clock = FakeClock()
    admission = make_admission(num_lanes=1, max_waiting=1, clock=clock)
    first = admission.submit(make_submission())
    grant = admission.elect(CACHE)
    assert grant is not None
    first.note_completed(SECOND_FOR_TOKEN)
    waits = admission.submit(make_submission("waits"))
    for _ in range(2):
        with pytest.raises(ServerOverloaded):
            admission.submit(make_submission("late"))
    waits.withdraw()
    grant.release()
    assert admission.elect(CACHE) is None

    for _ in range(2):
        admission.submit(make_submission())
    with pytest.raises(ServerOverloaded) as refusal:
        admission.submit(make_submission("late"))
    assert refusal.value.retry_after_s == 40


def test_one_user_who_fills_the_queue_does_not_keep_another_one_out():
    admission = make_admission(num_lanes=2, max_waiting=4)
    for _ in range(6):
        admission.submit(make_submission())
    for user in (2, 3):
        admission.refuse_early(newcomer(10, user=user))
        admission.submit(make_submission("first", user=user))
        with pytest.raises(ServerOverloaded):
            admission.refuse_early(newcomer(10, user=user))
        with pytest.raises(ServerOverloaded):
            admission.submit(make_submission("second", user=user))
    # As many as there are lanes, and no more.
    with pytest.raises(ServerOverloaded, match="6 requests are waiting"):
        admission.submit(make_submission("first", user=4))
    admission.check_integrity()


def test_one_user_who_does_not_wait_as_told_does_not_lengthen_the_time_of_another_one():
    admission = measured(FakeClock(), max_waiting=1)
    admission.submit(make_submission("waits"))
    for _ in range(1000):
        with pytest.raises(ServerOverloaded):
            admission.submit(make_submission("again"))
    admission.submit(make_submission("first", user=2))
    with pytest.raises(ServerOverloaded) as refusal:
        admission.submit(make_submission("late", user=3))
    # 60 s for those who are here; 40 s for as much of the first one's as it asks for itself.
    assert refusal.value.retry_after_s == 100
