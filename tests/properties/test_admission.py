"""Queue, budget and grants in any order: nothing is lost, given twice, or overbooked."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from inference.admission.controller import AdmissionController
from inference.domain.admission import Submission
from inference.domain.errors import ContextLengthExceeded, ServerOverloaded
from inference.domain.requests import GenerationRequest
from tests.admission_parts import NoCache, tell_nobody

CELLS, LANES, WAITING = 200, 3, 4


class AdmissionMachine(RuleBasedStateMachine):
    tickets = Bundle("tickets")
    grants = Bundle("grants")

    def __init__(self) -> None:
        super().__init__()
        self.admission = AdmissionController(
            num_lanes=LANES, max_waiting=WAITING, num_cells=CELLS, record=tell_nobody
        )
        self.waiting: list[Submission] = []
        self.granted: list[Submission] = []
        self.number = 0

    @rule(target=tickets, prompt=st.integers(1, 250), max_tokens=st.integers(1, 600))
    def submit(self, prompt, max_tokens):
        self.number += 1
        request = GenerationRequest(str(self.number), (0,) * prompt, max_tokens)
        submission = Submission(request, object(), 0.0)
        fits = prompt + min(max_tokens, 512) <= CELLS
        has_room = len(self.waiting) < WAITING + max(LANES - len(self.granted), 0)
        try:
            ticket = self.admission.submit(submission)
        except ContextLengthExceeded:
            assert not fits
            return None
        except ServerOverloaded:
            assert fits and not has_room
            return None
        assert fits and has_room
        self.waiting.append(submission)
        return ticket, submission

    @rule(ticket=tickets)
    def withdraw(self, ticket):
        if ticket is None:
            return
        handle, submission = ticket
        assert handle.withdraw() is (submission in self.waiting)
        if submission in self.waiting:
            self.waiting.remove(submission)

    @rule(target=grants)
    def elect(self):
        grant = self.admission.elect(NoCache())
        if grant is None:
            return None
        assert grant.submission is self.waiting.pop(0)
        self.granted.append(grant.submission)
        return grant

    @rule(grant=consumes(grants), times=st.integers(1, 3))
    def release(self, grant, times):
        if grant is None:
            return
        for _ in range(times):
            grant.release()
        self.granted.remove(grant.submission)

    @invariant()
    def counts_agree(self):
        self.admission.check_integrity()
        statistics = self.admission.statistics()
        assert statistics.queue.num_waiting == len(self.waiting)
        assert statistics.num_granted == len(self.granted)
        assert statistics.budget.num_reserved_tokens == sum(
            len(s.request.prompt_token_ids) + min(s.request.max_tokens, 512) for s in self.granted
        )


TestAdmission = AdmissionMachine.TestCase
