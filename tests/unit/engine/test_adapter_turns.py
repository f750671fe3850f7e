"""Several sets of LoRA adapters in one engine: no batch has two, nobody starves, nothing is shared."""

from __future__ import annotations

from itertools import groupby

import pytest

from inference.domain.adapters import AdapterSet, AppliedAdapter
from inference.domain.events import Failed, Finished
from inference.engine.adapter_turns import MAX_SLICE_STEPS, SLICE_S
from inference.engine.plan import StepOutcome
from tests.unit.engine.scripted_engine_parts import Engine, RecordingSink, make_request, with_adapters

A, B, HALF_A = AppliedAdapter("a", 1.0), AppliedAdapter("b", 1.0), AppliedAdapter("a", 0.5)
SETS: list[AdapterSet] = [(), (A,), (HALF_A,), (A, B)]


def submit(engine: Engine, name: str, adapters: AdapterSet, **fields: int) -> RecordingSink:
    return engine.submit(with_adapters(make_request(name, **fields), *adapters))


def turns(engine: Engine) -> list[tuple[AdapterSet, int]]:
    """The sets of the steps so far, and how many steps each had in a row."""
    return [
        (one, len(list(steps))) for one, steps in groupby([plan.adapters for plan in engine.runner.plans])
    ]


def test_without_adapters_there_are_no_turns() -> None:
    engine = Engine()
    for number in range(6):
        engine.submit(make_request(f"r{number}", max_tokens=20))
    engine.run()
    assert {plan.adapters for plan in engine.runner.plans} == {()}
    assert engine.core._scheduler._turns.total_turns == 0
    engine.check_all_free()


def test_one_set_alone_is_computed_like_any_other_load() -> None:
    engine, plain = Engine(), Engine()
    for number in range(6):
        submit(engine, f"r{number}", (A,), max_tokens=20, prompt=30)
        submit(plain, f"r{number}", (), max_tokens=20, prompt=30)
    assert engine.run() == plain.run()
    assert [plan.num_tokens for plan in engine.runner.plans] == [
        plan.num_tokens for plan in plain.runner.plans
    ]


def test_sets_take_turns_and_all_finish_with_their_own_tokens() -> None:
    engine = Engine(num_lanes=8)
    sinks = [submit(engine, f"r{number}", SETS[number % 4], max_tokens=200) for number in range(8)]
    engine.run(max_steps=5000)
    engine.check_all_free()
    for sink in sinks:
        assert sink.token_ids == [100 + index for index in range(200)]
        assert isinstance(sink.events[-1], Finished)
    taken = turns(engine)
    assert max(num_steps for _, num_steps in taken) <= MAX_SLICE_STEPS
    # Four sets with two sequences each: 200 steps each, and no more turns than slices.
    steps = {one: sum(number for other, number in taken if other == one) for one in SETS}
    assert set(steps.values()) == {200}
    assert len(taken) <= 4 * (200 // MAX_SLICE_STEPS + 1)


def test_a_slice_is_a_time_where_steps_are_long() -> None:
    engine = Engine()
    engine.runner.token_s = SLICE_S / 3
    for name, adapters in (("plain", ()), ("a", (A,))):
        submit(engine, name, adapters, prompt=1, max_tokens=60)
    engine.run()
    assert all(num_steps <= 4 for _, num_steps in turns(engine)[:-1])
    assert len(turns(engine)) >= 60 * 2 // 4


def test_a_newcomer_waits_for_one_slice_of_each_other_set_whatever_comes_after_it() -> None:
    engine = Engine(num_lanes=8)
    for name, adapters in (("plain", ()), ("a", (A,))):
        submit(engine, name, adapters, max_tokens=100_000)
    for _ in range(10):
        engine.core.step()
    submit(engine, "new", (A, B), max_tokens=100_000)
    engine.core.step()
    for number in range(5):
        submit(engine, f"later {number}", (AppliedAdapter("a", 2.0 + number),), max_tokens=100_000)
    num_before = len(engine.runner.plans)
    while engine.runner.plans[-1].adapters != (A, B):
        engine.core.step()
    assert len(engine.runner.plans) - num_before <= 2 * MAX_SLICE_STEPS
    engine.check()


def test_sets_that_stand_still_have_no_turn() -> None:
    engine = Engine()
    sinks = [
        submit(engine, "plain", (), max_tokens=300),
        submit(engine, "held", (A,), max_tokens=300),
        submit(engine, "gone", (A, B), max_tokens=300),
    ]
    for _ in range(3 * MAX_SLICE_STEPS):
        engine.core.step()
    engine.hold("held")
    engine.cancel("gone")
    engine.core.step()
    num_before = len(engine.runner.plans)
    engine.run()
    assert {plan.adapters for plan in engine.runner.plans[num_before:]} == {()}
    engine.resume("held")
    engine.run()
    assert sinks[0].token_ids == sinks[1].token_ids == [100 + index for index in range(300)]
    engine.check_all_free()


def test_a_failed_step_of_one_set_is_nobody_elses() -> None:
    engine = Engine()
    sinks = [submit(engine, f"r{number}", SETS[number], max_tokens=50) for number in range(4)]
    engine.runner.poisoned = {"r2"}
    engine.run()
    engine.check_all_free()
    assert [isinstance(sink.events[-1], Failed) for sink in sinks] == [False, False, True, False]


def test_those_who_lose_their_cells_come_back_in_their_own_set() -> None:
    engine = Engine(num_lanes=4, num_cells=256, resume_headroom_tokens=1)
    sinks = [submit(engine, f"r{number}", SETS[number], prompt=60, max_tokens=100) for number in range(4)]
    engine.run(max_steps=5000)
    assert engine.core.statistics(is_alive=True).total_preemptions > 0
    assert all(sink.token_ids == [100 + index for index in range(100)] for sink in sinks)
    engine.check_all_free()


def test_an_aborted_step_and_a_lack_of_cells_keep_the_sets_apart() -> None:
    engine = Engine()
    sinks = [submit(engine, f"r{number}", SETS[number], prompt=40, max_tokens=20) for number in range(4)]
    engine.runner.outcomes.extend([StepOutcome.ABORTED, StepOutcome.NO_CELLS, StepOutcome.ABORTED])
    engine.run()
    assert all(len(sink.token_ids) == 20 for sink in sinks)
    engine.check_all_free()


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_prompt_is_computed_once_for_each_set_and_not_shared_between_them(is_at_once: bool) -> None:
    engine = Engine(num_lanes=8, has_prefix_cache=True, max_batch_tokens=64)
    for number in range(8):
        submit(engine, f"r{number}", SETS[number % 4], prompt=200, max_tokens=3)
        if not is_at_once:
            engine.run()
    engine.run()
    # The last token of a prompt is always computed.
    assert engine.core.statistics(is_alive=True).total_prefill_tokens == 4 * 200 + 4
    engine.check_all_free()
