from __future__ import annotations

import pytest

from inference.domain.admission import Submission
from inference.domain.backend import HoldReason
from inference.engine.config import EngineConfig
from inference.engine.drafting.draft_governor import DraftGovernor
from inference.engine.drafting.speculation import Speculation
from inference.engine.kv_memory import KvMemory
from inference.engine.lanes import LanePool
from inference.engine.pacing import PrefillPacer
from inference.engine.plan import StepPlan
from inference.engine.scheduler import Scheduler, share
from inference.engine.sequence import Sequence, SequenceState
from tests.unit.engine.scripted_engine_parts import CountedGrant, RecordingSink, ScriptedRunner, make_request


class Bench:
    """A scheduler and sequences, computed by hand."""

    def __init__(self, *, budget: int = 100, num_cells: int = 10_000, headroom: int = 10) -> None:
        pacer = PrefillPacer(
            target_step_s=1.0, min_tokens=1, max_tokens=budget + 8, max_beside_decodes=budget
        )
        pacer.observe(num_tokens=100, num_prefill_tokens=100, duration_s=100 / budget)
        config = EngineConfig(max_batch_tokens=max(budget + 8, 32), resume_headroom_tokens=headroom)
        runner = ScriptedRunner(num_cells=num_cells)
        speculation = Speculation(
            runner, config, KvMemory(runner, config, now_ts=lambda: 0.0), DraftGovernor()
        )
        self.scheduler = Scheduler(config, runner, pacer, speculation)
        self._lanes = LanePool(16)
        self._order = 0

    def add(self, prompt: int) -> Sequence:
        lane = self._lanes.acquire()
        assert lane is not None
        self._order += 1
        request = make_request(f"s{self._order}", prompt=prompt, max_tokens=1000)
        sequence = Sequence(CountedGrant(Submission(request, RecordingSink(), 0.0)), lane, order=self._order)
        self.scheduler.add(sequence)
        return sequence

    def decoding(self, prompt: int = 5) -> Sequence:
        sequence = self.add(prompt)
        sequence.advance(prompt)
        sequence.append(50)
        return sequence

    def plan(self) -> StepPlan:
        self.scheduler.resume_where_it_fits()
        plan = self.scheduler.schedule()
        assert plan is not None
        self.scheduler.check_integrity()
        return plan

    def apply(self, plan: StepPlan) -> None:
        for sequence in plan.decoding:
            sequence.advance(1)
        for chunk in plan.prefills:
            chunk.sequence.advance(chunk.num_tokens)
        for sequence in plan.outputs:
            sequence.append(60)


def shares(plan: StepPlan) -> dict[Sequence, int]:
    return {chunk.sequence: chunk.num_tokens for chunk in plan.prefills}


def test_nothing_to_do_is_none() -> None:
    assert Bench().scheduler.schedule() is None


def test_decodes_come_first_and_are_never_left_out() -> None:
    bench = Bench(budget=20)
    first, second = bench.decoding(), bench.decoding()
    long = bench.add(1000)
    for _ in range(10):
        plan = bench.plan()
        assert plan.decoding == (first, second)
        assert plan.token_ids[:2].tolist() == [first.last_token_id, second.last_token_id]
        assert plan.is_output[:2].tolist() == [1, 1]
        assert 0 < shares(plan)[long] <= 20
        bench.apply(plan)


def test_a_long_prompt_is_cut_into_chunks_and_drawn_from_once() -> None:
    bench = Bench(budget=100)
    sequence = bench.add(250)
    sizes = []
    while sequence.state is SequenceState.PREFILLING:
        plan = bench.plan()
        sizes.append(plan.num_tokens)
        assert plan.is_output.sum() == len(plan.outputs) == (sequence.num_remaining == plan.num_tokens)
        bench.apply(plan)
    assert sizes == [100, 100, 50]


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    bench = Bench(budget=100)
    long, short = bench.add(1000), bench.add(30)
    plan = bench.plan()
    assert shares(plan) == {long: 70, short: 30}
    assert plan.outputs == (short,)


def test_the_oldest_prompt_moves_on_however_many_short_ones_come() -> None:
    bench = Bench(budget=100)
    long = bench.add(500)
    for step in range(20):
        if long.state is not SequenceState.PREFILLING:
            break
        newcomers = [bench.add(90)]
        plan = bench.plan()
        assert shares(plan)[long] >= 25, step
        bench.apply(plan)
        for sequence in newcomers:
            sequence.end()
            bench.scheduler.remove(sequence)
            sequence.lane.release()
    assert long.state is SequenceState.DECODING


def test_equal_prompts_are_served_in_order_of_arrival() -> None:
    bench = Bench(budget=100)
    prompts = [bench.add(100) for _ in range(3)]
    finished = []
    while len(finished) < 3:
        plan = bench.plan()
        finished += [chunk.sequence for chunk in plan.prefills if chunk.is_last]
        bench.apply(plan)
    assert finished == prompts


def test_chunks_never_exceed_the_budget() -> None:
    bench = Bench(budget=10)
    sequences = [bench.add(prompt) for prompt in (7, 3, 12, 1)]
    chunks = share(sequences, 10)
    assert sum(chunk.num_tokens for chunk in chunks) == 10
    assert all(chunk.num_tokens > 0 for chunk in chunks)
    assert share(sequences, 1)[0].num_tokens == 1
    assert share([], 10) == []


def test_the_youngest_is_preempted_and_the_last_one_is_not() -> None:
    bench = Bench(num_cells=30)
    first, second = bench.decoding(), bench.decoding()
    assert bench.scheduler.victim() is second
    bench.scheduler.preempt(second)
    assert bench.scheduler.victim() is None
    assert bench.plan().sequences == (first,)


def hold(bench: Bench, sequence: Sequence) -> None:
    sequence.submission.holds.add(HoldReason.READER)
    bench.scheduler.hold(sequence)


def unhold(bench: Bench, sequence: Sequence) -> None:
    sequence.submission.holds.clear()
    bench.scheduler.unhold(sequence)


def test_a_held_one_is_in_no_batch_and_the_others_go_on() -> None:
    bench = Bench()
    decoding, prompt, other = bench.decoding(), bench.add(20), bench.decoding()
    hold(bench, decoding)
    hold(bench, prompt)
    assert bench.plan().sequences == (other,)
    hold(bench, other)
    assert bench.scheduler.schedule() is None
    for sequence in (decoding, prompt, other):
        unhold(bench, sequence)
    assert set(bench.plan().sequences) == {decoding, prompt, other}


def test_held_ones_give_up_their_cells_before_anybody_stops_the_youngest_first() -> None:
    bench = Bench(num_cells=30)
    old, held, younger, youngest = (bench.decoding() for _ in range(4))
    hold(bench, held)
    hold(bench, younger)
    victims = []
    for _ in range(3):
        victim = bench.scheduler.victim()
        assert victim is not None
        victims.append(victim)
        bench.scheduler.preempt(victim)
        bench.scheduler.check_integrity()
    assert victims == [younger, held, youngest]
    assert bench.scheduler.victim() is None
    assert held.state is SequenceState.HELD
    assert bench.plan().sequences == (old,)


def test_a_held_one_without_cells_neither_claims_room_nor_keeps_newcomers_out() -> None:
    bench = Bench(num_cells=256, headroom=10)
    first, second = bench.decoding(prompt=150), bench.decoding(prompt=100)
    hold(bench, first)
    bench.scheduler.preempt(first)
    assert not bench.scheduler.has_preempted
    assert bench.scheduler.num_cells_to_come == 1 + 10
    bench.scheduler.preempt(second)
    assert bench.scheduler.resume_where_it_fits() == [second]
    unhold(bench, first)
    assert bench.scheduler.has_preempted
    assert bench.scheduler.resume_where_it_fits() == []
    second.end()
    bench.scheduler.remove(second)
    assert bench.scheduler.resume_where_it_fits() == [first]


def test_a_preempted_one_does_not_wait_for_those_that_are_only_held() -> None:
    bench = Bench(num_cells=256, headroom=10)
    first, second = bench.decoding(prompt=150), bench.decoding(prompt=100)
    third = bench.decoding(prompt=5)
    hold(bench, first)
    bench.scheduler.preempt(second)
    assert bench.scheduler.resume_where_it_fits() == []
    hold(bench, third)
    assert bench.scheduler.resume_where_it_fits() == [second]
    bench.scheduler.check_integrity()


def test_reasons_and_state_of_a_held_one_must_agree() -> None:
    bench = Bench()
    sequence = bench.add(5)
    sequence.submission.holds.add(HoldReason.HOOK)
    with pytest.raises(AssertionError, match="reasons"):
        bench.scheduler.check_integrity()


def test_a_preempted_sequence_comes_back_when_it_fits_with_room_to_grow() -> None:
    bench = Bench(num_cells=256, headroom=10)
    first, second = bench.decoding(prompt=150), bench.decoding(prompt=100)
    bench.scheduler.preempt(second)
    assert bench.plan().sequences == (first,)
    assert bench.scheduler.has_preempted
    first.end()
    bench.scheduler.remove(first)
    plan = bench.plan()
    assert not bench.scheduler.has_preempted
    assert shares(plan)[second] == 100
    bench.apply(plan)
    plan = bench.plan()
    assert plan.token_ids.tolist() == [50]
    assert plan.outputs == (second,)


def test_the_oldest_preempted_comes_back_first() -> None:
    # 150 + 150 + 20 tokens and headroom for three do not fit: the short one must not overtake.
    bench = Bench(num_cells=340, headroom=10)
    first, second, third = bench.decoding(150), bench.decoding(150), bench.decoding(20)
    bench.scheduler.preempt(third)
    bench.scheduler.preempt(second)
    assert bench.plan().sequences == (first, second)
    assert third.state is SequenceState.PREEMPTED


def test_one_sequence_can_be_planned_alone() -> None:
    bench = Bench(budget=100)
    decoding, waiting = bench.decoding(), bench.add(30)
    assert bench.scheduler.plan_one(decoding).sequences == (decoding,)
    alone = bench.scheduler.plan_one(waiting)
    assert alone.num_tokens == 30
    assert alone.outputs == (waiting,)


def test_removing_a_preempted_sequence_is_counted() -> None:
    bench = Bench()
    bench.decoding()
    victim = bench.decoding()
    bench.scheduler.preempt(victim)
    victim.end()
    bench.scheduler.remove(victim)
    assert not bench.scheduler.has_preempted
    bench.scheduler.check_integrity()


def test_steady_decoding_reuses_its_plan_until_somebody_comes_or_goes() -> None:
    bench = Bench()
    first, second = bench.decoding(), bench.decoding()
    plan = bench.plan()
    bench.apply(plan)
    assert bench.plan() is plan
    assert plan.token_ids.tolist() == [60, 60]
    assert plan.positions.tolist() == [6, 6]
    bench.apply(plan)
    third = bench.decoding()
    grown = bench.plan()
    assert grown is not plan and grown.decoding == (first, second, third)
    bench.apply(grown)
    second.end()
    bench.scheduler.remove(second)
    assert bench.plan().decoding == (first, third)
