"""The engine's core under anything that can happen to it, in any order.

Whatever is submitted, cancelled, held, resumed, injected, refused cells, failed or interrupted: every request
gets exactly one ending (or none, if its owner cancelled it), its tokens are the right ones in the
right order, positions always follow the cells, and in the end no lane, no cell and no grant is left.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from inference.domain.adapters import AppliedAdapter
from inference.domain.backend import HoldReason
from inference.domain.errors import ContextLengthExceeded, GenerationFailed, ServiceUnavailable
from inference.domain.events import Failed, Finished, FinishReason, Injected, Signals, Started
from inference.domain.requests import GenerationRequest
from inference.domain.signals import SignalRequest, SignalRule
from inference.engine.plan import NOTHING_DRAWN, StepOutcome
from tests.unit.engine.scripted_engine_parts import (
    CONTROL_TOKEN,
    END_TOKEN,
    LOST,
    Engine,
    make_request,
    with_adapters,
    with_media,
)

NUM_CELLS = 256
SIGNALS = st.builds(
    SignalRequest,
    wants_first_token=st.booleans(),
    rules=st.sampled_from([(), (SignalRule(),), (SignalRule(every_tokens=2), SignalRule(window_tokens=4))]),
)
TROUBLES = [StepOutcome.FAILED, StepOutcome.ABORTED, StepOutcome.NO_CELLS, OSError("gone")]


class EngineMachine(RuleBasedStateMachine):
    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.cancelled: set[str] = set()
        self.stops_at: dict[str, int] = {}
        self.breaks_at: dict[str, int] = {}
        self.forces: dict[str, int] = {}
        self.periods: dict[str, int] = {}
        self.is_over = False
        # A made-up lack of cells may end the only sequence early.
        self.lacked_cells = False
        self.holds: dict[str, set[HoldReason]] = {}
        self.num_signals: dict[str, int] = {}

    @initialize(num_lanes=st.integers(1, 5), budget=st.sampled_from([32, 40, 256]))
    def start(self, num_lanes: int, budget: int) -> None:
        self.engine = Engine(
            num_lanes=num_lanes,
            num_cells=NUM_CELLS,
            max_batch_tokens=budget,
            max_prefill_tokens_beside_decodes=32,
            resume_headroom_tokens=1,
        )
        self.engine.runner.draw = self._draw
        self.engine.runner.force = self._force
        self.engine.runner.measure = lambda request, index: LOST

    def _force(self, request: GenerationRequest, index: int) -> int:
        """As many tokens as it forces, up to its end."""
        name = request.request_id
        num_forced = self.forces.get(name, 0) if index % 3 == 0 else 0
        ends = [end for end in (self.stops_at.get(name), self.breaks_at.get(name)) if end is not None]
        return min([num_forced, *(end - index - 1 for end in ends if end > index)])

    def _draw(self, request: GenerationRequest, index: int) -> int:
        name = request.request_id
        if index == self.breaks_at.get(name):
            return NOTHING_DRAWN
        return END_TOKEN if index == self.stops_at.get(name) else self._token(name, index)

    def _token(self, name: str, index: int) -> int:
        """Some answers repeat themselves, but for every thirteenth token: those are guessed ahead."""
        period = self.periods.get(name, 0)
        return 100 + index if not period or index % 13 == 12 else 100 + index % period

    # -- what callers do ------------------------------------------------------------------------

    @rule(
        target=names,
        prompt=st.integers(1, NUM_CELLS + 20),
        max_tokens=st.integers(1, 120),
        stops_at=st.none() | st.integers(0, 40),
        breaks_at=st.none() | st.none() | st.integers(0, 40),
        forces=st.integers(0, 40),
        signals=st.none() | SIGNALS,
        picture=st.none() | st.tuples(st.integers(0, 60), st.integers(1, 60), st.booleans()),
        adapter=st.none() | st.none() | st.sampled_from(["a", "b"]),
        period=st.integers(0, 5),
        max_draft_tokens=st.integers(0, 12),
    )
    def submit(
        self,
        *,
        prompt: int,
        max_tokens: int,
        stops_at: int | None,
        breaks_at: int | None,
        forces: int,
        signals: SignalRequest | None,
        picture: tuple[int, int, bool] | None,
        adapter: str | None,
        period: int,
        max_draft_tokens: int,
    ) -> str:
        self.count += 1
        name = f"r{self.count}"
        if stops_at is not None:
            self.stops_at[name] = stops_at
        if breaks_at is not None:
            self.breaks_at[name] = breaks_at
        self.forces[name] = forces if not max_draft_tokens else forces % 4
        self.periods[name] = period
        request = make_request(
            name,
            prompt=prompt,
            max_tokens=max_tokens,
            signals=signals,
            max_draft_tokens=max_draft_tokens,
        )
        if picture is not None and picture[0] < prompt:
            start, count, is_causal = picture
            request = with_media(request, (start, min(count, prompt - start), "a"), is_causal=is_causal)
        if adapter is not None:
            request = with_adapters(request, AppliedAdapter(adapter, 0.5))
        if self.is_over:
            return name
        self.engine.submit(request)
        return name

    @rule(name=names)
    def cancel(self, name: str) -> None:
        if name not in self.engine.sinks:
            return
        if not self.engine.sinks[name].endings:
            self.cancelled.add(name)
        submission = self.engine.submissions[name]
        if submission in self.engine.admission.waiting:
            self.engine.admission.waiting.remove(submission)
        else:
            self.engine.cancel(name)

    @rule(name=names, reason=st.sampled_from(HoldReason))
    def hold(self, name: str, reason: HoldReason) -> None:
        if name in self.engine.sinks:
            self.engine.hold(name, reason)
            self.holds.setdefault(name, set()).add(reason)

    @rule(name=names, reason=st.sampled_from(HoldReason))
    def resume(self, name: str, reason: HoldReason) -> None:
        if name in self.engine.sinks:
            self.engine.resume(name, reason)
            self.holds.get(name, set()).discard(reason)

    @rule(name=names, num_tokens=st.integers(0, 60) | st.just(NUM_CELLS), has_control=st.booleans())
    def inject(self, name: str, num_tokens: int, has_control: bool) -> None:
        """What a hook puts in where its sequence stands still, and what others might try."""
        if name in self.engine.sinks:
            tokens = [*range(600, 600 + num_tokens), *[CONTROL_TOKEN] * (has_control and num_tokens % 7 == 6)]
            self.engine.inject(name, *tokens)

    @rule(num_tokens=st.integers(1, 60), num_texts=st.integers(0, 2), resumes=st.booleans())
    def hooks_answer(self, num_tokens: int, num_texts: int, resumes: bool) -> None:
        """All of them at once, as far as they were asked."""
        for sequence in [] if self.is_over else self.engine.core._scheduler.sequences:
            if sequence.withheld is None:
                continue
            name = sequence.request.request_id
            for _ in range(num_texts):
                self.engine.inject(name, *range(600, 600 + num_tokens))
            if resumes:
                self.resume(name, HoldReason.HOOK)

    # -- what happens to the engine -------------------------------------------------------------

    @rule(num_steps=st.integers(1, 20))
    def step(self, num_steps: int) -> None:
        if self.is_over:
            return
        for _ in range(num_steps):
            self.engine.core.step()
        self._note_what_the_engine_held()
        # That nobody is computed while it is held is what the runner checks in every batch.
        for sequence in self.engine.core._scheduler.sequences:
            name = sequence.request.request_id
            assert sequence.submission.holds == self.holds.get(name, set())

    def _note_what_the_engine_held(self) -> None:
        for name, sink in self.engine.sinks.items():
            signals = [event for event in sink.events if isinstance(event, Signals)]
            for event in signals[self.num_signals.get(name, 0) :]:
                if event.is_held:
                    self.holds.setdefault(name, set()).add(HoldReason.HOOK)
            self.num_signals[name] = len(signals)

    @rule(outcome=st.sampled_from(TROUBLES), num_rows=st.sampled_from([0, 1, 5, 200]))
    def something_goes_wrong(self, outcome: StepOutcome | Exception, num_rows: int) -> None:
        self.engine.runner.outcomes.append(outcome)
        self.engine.runner.num_rows_before_trouble = num_rows
        self.lacked_cells |= outcome is StepOutcome.NO_CELLS

    @rule(name=names)
    def poison(self, name: str) -> None:
        self.engine.runner.poisoned.add(name)

    @rule()
    def abandon(self) -> None:
        if self.count < 4:
            return
        error = ServiceUnavailable("over")
        self.engine.core.abandon(error, self.engine.admission.close(error))
        self.is_over = True

    # -- what must always hold ------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if self.is_over:
            self.engine.core.check_integrity()
            self.engine.admission.check_integrity()
            assert not self.engine.runner.violations
            return
        self.engine.check()

    @invariant()
    def events_come_in_order_and_tokens_are_right(self) -> None:
        for name, sink in self.engine.sinks.items():
            kinds = [type(event) for event in sink.events]
            assert len(sink.endings) <= 1
            assert not sink.endings or sink.events[-1] is sink.endings[0]
            assert Started not in kinds[1:]
            assert sink.token_ids == [self._token(name, index) for index in range(len(sink.token_ids))]
            self._check_injections(name)
            request = self.engine.submissions[name].request
            assert len(sink.token_ids) <= min(request.max_tokens, self.stops_at.get(name, 10**6))

    def _check_injections(self, name: str) -> None:
        """One token at most is thrown away for each time that signals hold it, and all that was said to be
        put in is among what was drawn, as the runner has checked it against the cells."""
        events = self.engine.sinks[name].events
        holding = [event for event in events if isinstance(event, Signals) and event.is_held]
        injected = [event for event in events if isinstance(event, Injected)]
        assert all(bool(event.refusal) != bool(event.num_injected) for event in injected)
        assert sum(event.num_discarded for event in injected) <= len(holding)
        drawn = self.engine.runner.drawn.get(name, [])
        assert len([one for one in drawn if one >= 600]) == sum(event.num_injected for event in injected)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        if not self.is_over:
            self.engine.runner.outcomes.clear()
            self.engine.run(max_steps=5000)
            while not (statistics := self.engine.core.statistics(is_alive=True)).is_idle:
                assert statistics.lanes.num_used == statistics.num_held
                self._note_what_the_engine_held()
                for name, reasons in self.holds.items():
                    while reasons:
                        self.engine.resume(name, reasons.pop())
                self.engine.run(max_steps=5000)
            self.engine.check_all_free()
        assert self.engine.admission.num_held == 0
        for name, sink in self.engine.sinks.items():
            if name in self.cancelled and not sink.endings:
                continue
            (ending,) = sink.endings
            self._check_ending(name, ending)

    def _check_ending(self, name: str, ending: object) -> None:
        request = self.engine.submissions[name].request
        num_tokens = len(self.engine.sinks[name].token_ids)
        if isinstance(ending, Finished):
            if ending.reason is FinishReason.STOP:
                assert num_tokens == self.stops_at[name]
            else:
                is_full = len(request.prompt_token_ids) + num_tokens > NUM_CELLS - 1
                injected = [one for one in self.engine.sinks[name].events if isinstance(one, Injected)]
                num_injected = sum(one.num_injected for one in injected)
                is_full |= len(request.prompt_token_ids) + num_tokens + num_injected > NUM_CELLS - 1
                assert num_tokens == request.max_tokens or is_full or self.lacked_cells
        else:
            assert isinstance(ending, Failed)
            assert isinstance(ending.error, GenerationFailed | ContextLengthExceeded | ServiceUnavailable)


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
