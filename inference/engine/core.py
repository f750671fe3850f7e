"""One step of the engine: let in, schedule, run, update.

The invariant that is kept here: every grant that was elected ends exactly once (finished, failed or
cancelled), and then its cells, its lane and its reservation are free, in this order, before anybody
is told. Cells that stay behind for later prompts are the prefix cache's (prefix_cache.py), and free
for whoever runs and needs them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from inference.domain.admission import AdmissionSource, EventSink, Grant, Submission
from inference.domain.clock import Clock
from inference.domain.errors import ContextLengthExceeded, GenerationFailed, ServiceUnavailable, SkippyError
from inference.domain.events import (
    Dropped,
    Event,
    Failed,
    Finished,
    FinishReason,
    Started,
    TokenBatch,
)
from inference.engine.config import EngineConfig
from inference.engine.counters import EngineCounters
from inference.engine.drafting.draft_governor import DraftGovernor
from inference.engine.drafting.draft_verdict import apply_run
from inference.engine.drafting.speculation import Speculation
from inference.engine.inbox import Inbox, InjectionOrder
from inference.engine.injection import Injector
from inference.engine.kv_memory import KvMemory
from inference.engine.lanes import LanePool
from inference.engine.measured_runner import MeasuredRunner
from inference.engine.model_runner import ModelRunner
from inference.engine.pacing import PrefillPacer
from inference.engine.plan import NOTHING_DRAWN, StepOutcome, StepPlan, StepResult
from inference.engine.refusal import CONTEXT_MESSAGE, FAILED_MESSAGE, refusal
from inference.engine.scheduler import Scheduler
from inference.engine.sequence import HELD, WAITING_FOR_PREFIX, Sequence
from inference.engine.stats import EngineStatistics
from inference.engine.step_meter import StepMeter

logger = logging.getLogger(__name__)

Deliver = Callable[[list[tuple[EventSink, Event]]], None]


class EngineCore:
    """The sequences of one model and what happens to them. Belongs to the engine thread.

    Other threads may put into `inbox` and read `statistics`, nothing else. `deliver` gets the events
    of a step in one call and must not block.
    """

    def __init__(
        self,
        runner: ModelRunner,
        config: EngineConfig,
        admission: AdmissionSource,
        clock: Clock,
        deliver: Deliver,
        *,
        governor: DraftGovernor | None = None,
    ) -> None:
        self._runner = runner
        self._admission = admission
        self._clock = clock
        self._deliver = deliver
        self._lanes = LanePool(config.num_lanes)
        self._pacer = PrefillPacer.of(config)
        self.inbox = Inbox()
        self._memory = KvMemory(runner, config, now_ts=clock.monotonic, wake=self.inbox.wake)
        self._speculation = Speculation(runner, config, self._memory, governor or DraftGovernor())
        self._scheduler = Scheduler(config, runner, self._pacer, self._speculation, now=clock.monotonic)
        self._active: dict[Submission, Sequence] = {}
        self._events: list[tuple[EventSink, Event]] = []
        self._end_token_ids = runner.end_token_ids
        self._counters = EngineCounters()
        self._injector = Injector(runner, self._counters)
        self._meter = StepMeter(clock.monotonic())
        self._steps = MeasuredRunner(
            runner, clock, self._counters, self._meter, pacer=self._pacer, speculation=self._speculation
        )

    # -- a step ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one step; False where there is nothing to compute. What escapes ends the engine."""
        begin_ts = self._clock.monotonic()
        if begin_ts >= self._meter.next_mark_ts:
            counters = self._counters
            self._meter.mark(begin_ts, counters.num_prefill_tokens, counters.num_generated_tokens)
        try:
            self._take_back_cancelled()
            self._hold_and_resume()
            self._let_in()
            self._wake_waiting()
            for sequence in self._scheduler.resume_where_it_fits():
                self._begin(sequence)
            for sequence in self._memory.copy_states(has_streams=self._scheduler.has_streams):
                self._announce(sequence)
            plan = self._scheduler.schedule()
            if plan is None:
                return self._memory.save_idle()
            self._memory.make_room(plan.num_tokens)
            scheduled_ts = self._clock.monotonic()
            result = self._run(plan)
            self._update(plan, result)
            self._flush()
            self._meter.end_step(begin_ts, scheduled_ts, self._clock.monotonic())
            return True
        finally:
            self._flush()

    def _take_back_cancelled(self) -> None:
        for submission in self.inbox.take_cancelled():
            sequence = self._active.get(submission)
            if sequence is not None:
                self._counters.num_cancelled_sequences += 1
                self._end(sequence, Dropped(self._clock.monotonic()))

    def _hold_and_resume(self) -> None:
        for submission, order in self.inbox.take_orders():
            sequence = self._active.get(submission)
            if sequence is None:
                continue
            now_ts = self._clock.monotonic()
            if isinstance(order, InjectionOrder):
                event = self._injector.inject(sequence, order.token_ids, now_ts)
                self._events.append((sequence.sink, event))
                continue
            self._events.extend([(sequence.sink, one) for one in self._injector.release(sequence, now_ts)])
            if submission.holds:
                self._hold(sequence)
            elif sequence.state is HELD:
                self._scheduler.unhold(sequence)
        # Whoever waited for a hook's word has what it let through now, and not behind the next batch.
        self._flush()

    def _hold(self, sequence: Sequence) -> None:
        """Let it stand still with what it has, or finds where it waited for more."""
        if sequence.state is WAITING_FOR_PREFIX:
            sequence.stop_waiting()
            self._begin(sequence)
        self._announce(sequence)
        if sequence.state is not HELD:
            self._scheduler.hold(sequence)

    def _let_in(self) -> None:
        """Elect while there is a lane; not while a preempted sequence waits for the same cells."""
        if not self._lanes.num_free or self._scheduler.has_preempted:
            return
        while self._lanes.num_free:
            grant = self._admission.elect(self._memory.affinity)
            if grant is None:
                break
            self._start(grant)
        # Those who wait for their first token learn at once that it is on its way.
        self._flush()

    def _wake_waiting(self) -> None:
        """Go on with those whose prefix is there. Where it will not come (its leader has ended, was
        preempted or is held), the oldest computes it, and the others wait for that one."""
        for sequence in self._scheduler.waiting_for_prefix():
            if sequence.has_waited_enough:
                sequence.stop_waiting()
                self._begin(sequence)
            elif sequence.leader is not None:
                sequence.leader.promise(sequence.num_awaited)

    def _run(self, plan: StepPlan) -> StepResult:
        result = self._steps.run(plan)
        if result.is_memory_lost:
            self._memory.lose(self._scheduler.lose_cells())
        return result

    def _update(self, plan: StepPlan, result: StepResult) -> None:
        if result.outcome is StepOutcome.DONE:
            self._apply(plan, result)
        elif result.outcome is StepOutcome.NO_CELLS:
            if not plan.drafted:  # else the next step has no drafts, and nobody has to give way
                self._make_room()
        else:
            for sequence in plan.sequences:
                self._memory.resync(sequence)
            if result.outcome is StepOutcome.FAILED:
                self._counters.num_failed_steps += 1
                self._isolate(plan)

    # -- what came of it ------------------------------------------------------------------------

    def _apply(self, plan: StepPlan, result: StepResult) -> None:
        now_ts = self._counters.last_step_ts
        self._memory.grow_by_one([sequence.sequence_id for sequence in plan.decoding])
        for sequence in plan.decoding:
            sequence.num_computed += 1
        for chunk in plan.prefills:
            chunk.sequence.advance(chunk.num_tokens)
            self._memory.grow(chunk.sequence.sequence_id, chunk.num_tokens)
            self._counters.num_prefill_tokens += chunk.num_tokens
        events, end_token_ids = self._events, self._end_token_ids
        if result.scores:
            sequence = plan.prefills[0].sequence
            events.append((sequence.sink, sequence.score(result.scores, now_ts)))
            self._end_if_done(sequence)
        all_logprobs, all_forced = result.logprobs, result.forced
        for index, (sequence, token_id) in enumerate(zip(plan.outputs, result.token_ids, strict=True)):
            if token_id in end_token_ids:
                self._end(sequence, Finished(FinishReason.STOP, now_ts))
                continue
            if token_id == NOTHING_DRAWN:
                self._fail(sequence, GenerationFailed(FAILED_MESSAGE))
                continue
            num_generated = sequence.append(token_id)
            self._counters.num_generated_tokens += 1
            logprobs = (all_logprobs[index],) if index in all_logprobs else ()
            forced = all_forced.get(index, ())
            if forced:
                num_generated = sequence.append_forced(forced)
                self._counters.num_generated_tokens += len(forced)
            batch = TokenBatch((token_id, *forced), now_ts, logprobs)
            if sequence.watch is not None and self._injector.withholds(
                sequence, batch, result, index, events
            ):
                self._hold(sequence)
                continue
            events.append((sequence.sink, batch))
            if index in result.ended:
                self._end(sequence, Finished(FinishReason.STOP, now_ts))
            elif num_generated >= sequence.max_tokens:
                self._end(sequence, Finished(FinishReason.LENGTH, now_ts))
        if plan.drafted:
            self._apply_drafts(plan, result)

    def _apply_drafts(self, plan: StepPlan, result: StepResult) -> None:
        now_ts = self._counters.last_step_ts
        for drafted, run in zip(plan.drafted, result.runs, strict=True):
            batch, ending = apply_run(drafted, run, self._memory, self._end_token_ids, now_ts)
            self._counters.num_generated_tokens += len(batch.token_ids)
            self._events.append((drafted.sequence.sink, batch))
            if ending is not None:
                self._end(drafted.sequence, ending)

    def _make_room(self) -> None:
        """Cells ran out: those that nobody uses now go first. Then somebody gives up its own, and is
        computed again when there is room."""
        if self._memory.evict_one():
            return
        victim = self._scheduler.victim()
        if victim is not None:
            self._memory.preempt(victim)
            self._scheduler.preempt(victim)
            self._memory.trim()
            self._counters.num_preemptions += 1
            return
        # The last one has all cells for itself and still cannot grow.
        for sequence in self._scheduler.running():
            if sequence.num_generated:
                self._end(sequence, Finished(FinishReason.LENGTH, self._clock.monotonic()))
            else:
                self._fail(sequence, ContextLengthExceeded(CONTEXT_MESSAGE))

    def _isolate(self, plan: StepPlan) -> None:
        """Run the sequences of a failed step one by one, so that only the guilty fail."""
        for sequence in plan.sequences:
            alone = self._scheduler.plan_one(sequence)
            result = self._run(alone)
            if result.outcome is StepOutcome.DONE:
                self._apply(alone, result)
            elif result.outcome is StepOutcome.FAILED:
                self._fail(sequence, GenerationFailed(FAILED_MESSAGE))
            elif result.outcome is StepOutcome.ABORTED:
                self._memory.resync(sequence)

    # -- beginnings and endings -----------------------------------------------------------------

    def _start(self, grant: Grant) -> None:
        self._counters.num_sequences += 1
        error = refusal(grant.submission.request, self._runner)
        lane = self._lanes.acquire() if error is None else None
        if lane is None:
            self._counters.num_failed_sequences += 1
            grant.release()
            error = error or GenerationFailed(FAILED_MESSAGE)
            self._events.append((grant.submission.sink, Failed(error, self._clock.monotonic())))
            return
        sequence_id = self._memory.open(grant.submission.request)
        sequence = Sequence(grant, lane, order=self._counters.num_sequences, sequence_id=sequence_id)
        self._active[sequence.submission] = sequence
        self._scheduler.add(sequence)
        try:
            self._runner.open(sequence.sequence_id, sequence.request)
        except Exception:
            logger.exception("A sequence could not be opened")
            self._fail(sequence, GenerationFailed(FAILED_MESSAGE))
        else:
            self._begin(sequence)
            if sequence.submission.holds:
                self._hold(sequence)
            self._end_if_done(sequence)
            self._memory.make_room(self._scheduler.num_cells_to_come)

    def _begin(self, sequence: Sequence) -> None:
        """Take over the cells that are there for its tokens, or wait where another one is computing
        more of them right now; not if it is to be held, for then it will be late anyway."""
        leaders = {} if sequence.submission.holds else self._scheduler.leaders(sequence)
        match = self._memory.find(sequence, leaders)
        if match.num_awaited:
            sequence.wait_for(leaders[match.leader_id], match.num_awaited)
            return
        if match.num_tokens:
            self._memory.adopt(sequence, match)
        if sequence.submission.holds or not self._memory.begin_restore(sequence):
            self._announce(sequence)

    def _announce(self, sequence: Sequence) -> None:
        """Tell its owner, once, that it has started, and with how much."""
        if not sequence.is_announced:
            sequence.is_announced = True
            event = Started(self._clock.monotonic(), num_cached_tokens=sequence.num_computed)
            self._events.append((sequence.sink, event))

    def _end_if_done(self, sequence: Sequence) -> None:
        """Nothing is to be generated, and what was asked of its prompt is known."""
        if not sequence.max_tokens and not sequence.is_scoring:
            self._end(sequence, Finished(FinishReason.LENGTH, self._clock.monotonic()))

    def _fail(self, sequence: Sequence, error: SkippyError) -> None:
        self._end(sequence, Failed(error, self._clock.monotonic()))

    def _end(self, sequence: Sequence, event: Event) -> None:
        """Free all that the sequence had, then tell its owner. Cells are left to the prefix cache,
        unless it failed: who knows what is in them."""
        del self._active[sequence.submission]
        self._scheduler.remove(sequence)
        sequence.end()
        has_failed = isinstance(event, Failed)
        self._counters.num_failed_sequences += has_failed
        try:
            self._memory.retire(sequence, has_failed=has_failed)
        finally:
            sequence.lane.release()
            sequence.grant.release(num_output_tokens=sequence.num_generated)
            self._events.append((sequence.sink, event))

    def _flush(self) -> None:
        if self._events:
            events, self._events = self._events, []
            self._deliver(events)

    def abandon(self, error: ServiceUnavailable, waiting: list[Submission]) -> None:
        """No step will follow: end everything that runs or waits with `error`.

        The runner is not asked any more: it may be what broke, and it is freed as a whole.
        """
        now_ts = self._clock.monotonic()
        self._speculation.members.clear()
        for sequence in self._scheduler.sequences:
            self._active.pop(sequence.submission, None)
            self._scheduler.remove(sequence)
            sequence.end()
            sequence.lane.release()
            sequence.grant.release(num_output_tokens=sequence.num_generated)
            self._events.append((sequence.sink, Failed(error, now_ts)))
        self._memory.close()
        self._events.extend([(submission.sink, Failed(error, now_ts)) for submission in waiting])
        self._flush()

    # -- from other threads ---------------------------------------------------------------------

    def statistics(self, *, is_alive: bool) -> EngineStatistics:
        """A snapshot. From any thread."""
        return self._counters.snapshot(
            is_alive=is_alive,
            now_ts=self._clock.monotonic(),
            runner=self._runner,
            lanes=self._lanes,
            memory=self._memory,
            scheduler=self._scheduler,
            speculation=self._speculation,
            meter=self._meter,
        )

    def check_integrity(self) -> None:
        """Raise AssertionError unless lanes, sequences and the registry agree."""
        sequences = self._scheduler.sequences
        self._lanes.check_integrity([sequence.lane for sequence in sequences])
        self._scheduler.check_integrity()
        self._memory.check_integrity(sequences)
        if set(sequences) != set(self._active.values()):
            raise AssertionError("the scheduler and the registry hold different sequences")

    def __repr__(self) -> str:
        num_steps = self._counters.num_steps
        return f"<EngineCore {self._scheduler!r}, {self._lanes!r}, {self._memory!r}, {num_steps} steps>"
