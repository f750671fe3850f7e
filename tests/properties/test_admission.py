"""Queue, budget, limiter and estimator in any order: nothing is lost, given twice, or overbooked, and
nobody is passed over more often than the bound allows."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inference.admission.bypass_bound import MAX_BYPASSES
from inference.admission.concurrency import ConcurrencySettings
from inference.admission.lane_grant import LaneGrant
from inference.admission.queue_ticket import QueueTicket
from inference.domain.admission import Submission
from inference.domain.admission_events import ConcurrencyAdapted, Rejected
from inference.domain.errors import ContextLengthExceeded, ServerOverloaded, ServiceUnavailable
from inference.domain.priority import PriorityClass
from inference.domain.rejection_reason import RejectionReason
from inference.domain.timings import Timings
from tests.admission_parts import Events, KnownCache, make_admission, make_submission
from tests.clocks import FakeClock

CELLS, LANES, WAITING = 200, 3, 5
# Places beyond the limit for those who have nothing waiting.
FIRSTS = min(LANES, WAITING)
PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)


class AdmissionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.events = Events()
        self.admission = make_admission(
            num_lanes=LANES,
            max_waiting=WAITING,
            num_cells=CELLS,
            clock=self.clock,
            events=self.events,
            concurrency=ConcurrencySettings(is_adaptive=True, initial_limit=1, window=2),
        )
        self.tickets: dict[Submission, QueueTicket] = {}
        self.granted: dict[LaneGrant, QueueTicket] = {}
        self.ended: list[QueueTicket] = []
        self.num_passed: Counter[Submission] = Counter()
        self.number = 0
        self.is_closed = False

    @property
    def limit(self) -> int:
        return self.admission.statistics().limiter.limit

    @property
    def num_reserved(self) -> int:
        return sum(_needed(grant.submission) for grant in self.granted)

    @rule(
        prompt=PROMPTS,
        copies=st.sampled_from([1, 1, 1, 10, 30, 60]),
        max_tokens=st.sampled_from([1, 10, 100, 600]),
        user=st.integers(1, 3),
        priority=st.sampled_from(PriorityClass),
        allowed_s=st.none() | st.floats(-1, 50),
    )
    def submit(self, *, prompt, copies, max_tokens, user, priority, allowed_s):
        self.number += 1
        now = self.clock.now
        submission = make_submission(
            str(self.number),
            prompt=prompt * copies,
            max_tokens=max_tokens,
            user=user,
            priority=priority,
            namespace=str(user),
            submitted_ts=now,
            deadline_ts=None if allowed_s is None else now + allowed_s,
        )
        before = self.admission.statistics()
        predicted = before.estimator.predicted_wait_s
        # That of one who would go last: whoever goes earlier waits no longer.
        is_in_time = allowed_s is None or predicted is None or predicted <= allowed_s - 1e-6
        try:
            self.tickets[submission] = self.admission.submit(submission)
        except ContextLengthExceeded as error:
            assert not self.is_closed and _needed(submission) > CELLS
            assert error.reason is RejectionReason.NEVER_FITS
        except ServiceUnavailable:
            assert self.is_closed
        except ServerOverloaded as error:
            assert _needed(submission) <= CELLS and error.retry_after_s in range(1, 301)
            if error.reason is RejectionReason.QUEUE_FULL:
                mine = (user, priority)
                has_waiting = any((one.request.user_id, one.request.priority) == mine for one in self.tickets)
                assert before.queue.num_waiting >= (WAITING if has_waiting else WAITING + FIRSTS)
            else:
                assert error.reason is RejectionReason.PREDICTED_WAIT and not is_in_time
        else:
            assert not self.is_closed
            started = self.admission.statistics().queue.num_starting > before.queue.num_starting
            # At once only where nobody waits.
            assert not (started and before.queue.num_waiting)
            return
        assert isinstance(self.events[-1], Rejected) or self.is_closed

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def withdraw(self, data):
        submission = data.draw(st.sampled_from(list(self.tickets)))
        ticket = self.tickets.pop(submission)
        assert ticket.withdraw() is True
        assert ticket.withdraw() is False

    @rule(hot=st.integers(0, 2), num_hot=st.integers(0, 400))
    def elect(self, hot, num_hot):
        grant = self.admission.elect(KnownCache({hot: num_hot}))
        if grant is None:
            if self.tickets and len(self.granted) < self.limit:
                # Somebody has to run, or everybody would wait for ever.
                assert self.granted
            return
        assert len(self.granted) < self.limit
        assert self.num_reserved + _needed(grant.submission) <= CELLS
        ticket = self.tickets.pop(grant.submission)
        assert ticket.withdraw() is False
        self.granted[grant] = ticket
        self._note_passed(grant.submission)

    def _note_passed(self, chosen: Submission) -> None:
        """Later ones of the same user and class may pass somebody 32 times."""
        mine = (chosen.request.user_id, chosen.request.priority)
        for other in self.tickets:
            if (other.request.user_id, other.request.priority) == mine and _number(other) < _number(chosen):
                self.num_passed[other] += 1
                assert self.num_passed[other] <= MAX_BYPASSES

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), num_output=st.integers(0, 700), times=st.integers(1, 3))
    def release(self, data, num_output, times):
        grant = data.draw(st.sampled_from(list(self.granted)))
        ticket = self.granted.pop(grant)
        self.ended.append(ticket)
        for _ in range(times):
            grant.release(num_output_tokens=num_output)

    @precondition(lambda self: self.granted or self.ended)
    @rule(data=st.data(), num_tokens=st.integers(0, 50), took_s=st.floats(0, 5), is_failure=st.booleans())
    def note(self, data, num_tokens, took_s, is_failure):
        ticket = data.draw(st.sampled_from([*self.granted.values(), *self.ended]))
        before = self.limit
        if is_failure:
            ticket.note_failed()
        else:
            ticket.note_completed(Timings(num_tokens, num_tokens, 0, 0.0, took_s, took_s))
        if self.limit != before:
            decision = self.events[-1]
            assert isinstance(decision, ConcurrencyAdapted)
            assert (decision.previous_limit, decision.current_limit) == (before, self.limit)

    @rule(seconds=st.floats(0, 200))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @precondition(lambda self: self.number > 30)
    @rule()
    def close(self):
        waiting = self.admission.close(ServiceUnavailable("x", reason=RejectionReason.DRAINING))
        assert set(waiting) == set(self.tickets)
        self.tickets.clear()
        self.is_closed = True

    @invariant()
    def everything_is_where_it_belongs(self):
        self.admission.check_integrity()
        statistics = self.admission.statistics()
        assert statistics.queue.num_waiting + statistics.queue.num_starting == len(self.tickets)
        assert statistics.queue.num_waiting <= WAITING + FIRSTS
        assert statistics.num_granted == len(self.granted) <= LANES
        assert statistics.budget.num_reserved_tokens == self.num_reserved <= CELLS
        assert statistics.limiter.num_retiring == max(len(self.granted) - statistics.limiter.limit, 0)
        assert statistics.is_open is not self.is_closed

    def teardown(self):
        for grant in self.granted:
            grant.release()
        for ticket in self.tickets.values():
            assert ticket.withdraw()
        statistics = self.admission.statistics()
        assert statistics.num_granted == statistics.limiter.num_held == 0
        assert statistics.budget.num_reserved_tokens == 0
        assert statistics.estimator.num_reservations == 0
        self.admission.check_integrity()


def _needed(submission: Submission) -> int:
    return len(submission.request.prompt_token_ids) + min(submission.request.max_tokens, 512)


def _number(submission: Submission) -> int:
    return int(submission.request.request_id)


TestAdmission = AdmissionMachine.TestCase
TestAdmission.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
