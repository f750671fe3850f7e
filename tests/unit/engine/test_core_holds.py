"""The core with sequences that stand still: who goes on, what they keep, and how they come back."""

from __future__ import annotations

import pytest

from inference.domain.backend import HoldReason
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Failed, Finished, Started, TokenBatch
from inference.engine.plan import StepOutcome
from inference.engine.stats import EngineStatistics
from tests.unit.engine.scripted_engine_parts import Engine, RecordingSink, make_request


def statistics(engine: Engine) -> EngineStatistics:
    return engine.core.statistics(is_alive=True)


def step(engine: Engine, num_steps: int = 1) -> None:
    for _ in range(num_steps):
        engine.core.step()
        engine.check()


def start(engine: Engine, name: str, *, prompt: int = 3, max_tokens: int = 4) -> RecordingSink:
    sink = engine.submit(make_request(name, prompt=prompt, max_tokens=max_tokens))
    step(engine)
    return sink


def test_a_held_one_keeps_lane_and_cells_while_the_others_go_on() -> None:
    engine = Engine()
    held, other = (
        start(engine, "held", max_tokens=20),
        start(engine, "other", max_tokens=20),
    )
    engine.hold("held")
    had = len(held.token_ids)
    step(engine, 5)
    assert len(held.token_ids) == had
    assert len(other.token_ids) == 6
    assert (statistics(engine).num_held, statistics(engine).num_decoding) == (1, 1)
    assert statistics(engine).lanes.num_used == 2
    num_prefilled = statistics(engine).total_prefill_tokens
    engine.resume("held")
    engine.run()
    assert held.token_ids == [100 + index for index in range(20)]
    assert statistics(engine).total_prefill_tokens == num_prefilled
    engine.check_all_free()


def test_it_goes_on_when_the_last_reason_is_gone() -> None:
    engine = Engine()
    sink = start(engine, "r")
    engine.hold("r", HoldReason.READER)
    engine.hold("r", HoldReason.READER)
    engine.hold("r", HoldReason.HOOK)
    engine.resume("r", HoldReason.READER)
    step(engine, 3)
    assert len(sink.token_ids) == 1
    engine.resume("r", HoldReason.HOOK)
    step(engine)
    assert len(sink.token_ids) == 2


def test_a_prompt_is_held_between_two_chunks() -> None:
    engine = Engine(max_batch_tokens=64, max_prefill_tokens_beside_decodes=32)
    sink = start(engine, "long", prompt=200)
    engine.hold("long")
    assert not engine.core.step()
    assert statistics(engine).num_cells_used == 64
    engine.resume("long")
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]
    assert statistics(engine).total_prefill_tokens == 200
    engine.check_all_free()


def test_only_held_ones_are_nothing_to_do_but_not_idle() -> None:
    engine = Engine()
    start(engine, "r")
    engine.hold("r")
    for _ in range(3):
        assert not engine.core.step()
    assert not engine.core.is_idle
    engine.cancel("r")
    assert not engine.core.step()
    assert engine.core.is_idle
    engine.check_all_free()


def test_held_while_it_waits_in_the_queue_it_starts_and_stands_still() -> None:
    engine = Engine(num_lanes=1)
    running = start(engine, "running", max_tokens=3)
    waiting = engine.submit(make_request("waiting"))
    engine.hold("waiting")
    engine.run()
    assert running.endings
    assert [type(event) for event in waiting.events] == [Started]
    assert statistics(engine).num_held == 1
    engine.check()
    engine.resume("waiting")
    engine.run()
    assert waiting.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_held_and_resumed_in_the_queue_it_is_like_any_other() -> None:
    engine = Engine()
    sink = engine.submit(make_request())
    engine.hold("r")
    engine.resume("r")
    engine.run()
    assert isinstance(sink.events[-1], Finished)
    assert sink.token_ids == [100, 101, 102, 103]


def test_after_the_end_neither_does_anything() -> None:
    engine = Engine()
    sink = start(engine, "r", max_tokens=1)
    assert sink.endings
    engine.hold("r")
    engine.run()
    engine.resume("r")
    engine.run()
    assert len(sink.events) == 3
    assert statistics(engine).num_held == 0
    engine.check_all_free()


@pytest.mark.parametrize("end", ["cancel", "abandon"])
def test_a_held_one_can_end(end: str) -> None:
    engine = Engine()
    sink = start(engine, "r")
    engine.hold("r")
    step(engine)
    if end == "cancel":
        engine.cancel("r")
        engine.run()
        assert not sink.endings
        engine.check_all_free()
    else:
        error = ServiceUnavailable("over")
        engine.core.abandon(error, engine.admission.close(error))
        assert sink.endings == [Failed(error, engine.clock.monotonic())]
        assert engine.admission.num_held == 0


def test_cells_run_out_the_held_one_gives_way_and_is_computed_again_later() -> None:
    engine = Engine(num_lanes=3, num_cells=100, resume_headroom_tokens=1)
    held = start(engine, "held", prompt=40, max_tokens=20)
    others = [start(engine, name, prompt=20, max_tokens=15) for name in "ab"]
    engine.hold("held")
    engine.run()
    # The younger ones fitted beside it; now one comes that does not.
    others.append(start(engine, "c", prompt=50, max_tokens=30))
    engine.run()
    assert all(len(sink.token_ids) == num for sink, num in zip(others, (15, 15, 30), strict=True))
    assert statistics(engine).total_preemptions == 1
    assert statistics(engine).num_held == 1
    assert statistics(engine).num_cells_used == 0
    engine.check()
    engine.resume("held")
    engine.run()
    assert held.token_ids == [100 + index for index in range(20)]
    assert len([event for event in held.events if isinstance(event, Started)]) == 1
    engine.check_all_free()


def test_a_preempted_one_that_is_held_stays_away_and_does_not_block_newcomers() -> None:
    engine = Engine(num_lanes=3)
    start(engine, "old", max_tokens=100)
    young = start(engine, "young", max_tokens=5)
    engine.runner.outcomes.append(StepOutcome.NO_CELLS)
    engine.core.step()
    assert statistics(engine).num_preempted == 1
    engine.hold("young")
    late = engine.submit(make_request("late"))
    step(engine, 8)
    assert late.endings
    assert len(young.token_ids) == 1
    assert statistics(engine).num_held == 1
    engine.resume("young")
    engine.run()
    assert young.token_ids == [100 + index for index in range(5)]
    engine.check_all_free()


def test_the_last_one_that_runs_may_have_all_cells_of_held_ones_before_it_ends() -> None:
    engine = Engine(num_lanes=2, num_cells=60, resume_headroom_tokens=1)
    held = start(engine, "held", prompt=30, max_tokens=5)
    engine.hold("held")
    long = start(engine, "long", prompt=20, max_tokens=30)
    engine.run()
    assert len(long.token_ids) == 30
    engine.resume("held")
    engine.run()
    assert held.token_ids == [100 + index for index in range(5)]
    engine.check_all_free()


def test_where_even_that_does_not_suffice_only_the_one_that_runs_ends() -> None:
    engine = Engine(num_lanes=2, num_cells=60, resume_headroom_tokens=1)
    held = start(engine, "held", prompt=30, max_tokens=5)
    engine.hold("held")
    long = start(engine, "long", prompt=20, max_tokens=100)
    engine.run()
    assert isinstance(long.events[-1], Finished)
    assert not held.endings
    engine.resume("held")
    engine.run()
    assert held.token_ids == [100 + index for index in range(5)]
    engine.check_all_free()


def test_a_failed_step_of_others_does_not_touch_it() -> None:
    engine = Engine()
    held, bad = start(engine, "held"), start(engine, "bad", max_tokens=50)
    engine.hold("held")
    step(engine)
    engine.runner.poisoned.add("bad")
    engine.run()
    assert isinstance(bad.events[-1], Failed)
    engine.resume("held")
    engine.run()
    assert held.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_one_that_waits_for_a_prefix_starts_with_what_is_there_and_stands_still() -> None:
    engine = Engine(has_prefix_cache=True, max_batch_tokens=64, max_prefill_tokens_beside_decodes=32)
    common = tuple(range(10, 210))
    leader = engine.submit(make_request("leader", prompt=(*common, 500)))
    waiting = engine.submit(make_request("waiting", prompt=(*common, 501)))
    step(engine)
    assert statistics(engine).num_waiting_for_prefix == 1
    assert waiting.events == []
    engine.hold("waiting")
    step(engine)
    assert [type(event) for event in waiting.events] == [Started]
    assert (statistics(engine).num_waiting_for_prefix, statistics(engine).num_held) == (0, 1)
    engine.run()
    assert leader.endings
    engine.resume("waiting")
    engine.run()
    assert waiting.token_ids == [100, 101, 102, 103]
    assert len([event for event in waiting.events if isinstance(event, Started)]) == 1
    engine.check_all_free()


def test_held_before_anything_was_computed_it_finds_later_what_others_left() -> None:
    engine = Engine(has_prefix_cache=True)
    prompt = tuple(range(10, 110))
    held = engine.submit(make_request("held", prompt=(*prompt, 500)))
    engine.hold("held")
    other = engine.submit(make_request("other", prompt=(*prompt, 501)))
    engine.run()
    assert other.endings
    assert statistics(engine).total_prefill_tokens == 101
    engine.resume("held")
    engine.run()
    assert held.token_ids == [100, 101, 102, 103]
    assert statistics(engine).total_prefill_tokens == 102
    engine.check_all_free()


def test_what_a_held_one_has_computed_is_there_for_others() -> None:
    engine = Engine(has_prefix_cache=True)
    prompt = tuple(range(10, 110))
    held = engine.submit(make_request("held", prompt=(*prompt, 500)))
    step(engine)
    engine.hold("held")
    other = engine.submit(make_request("other", prompt=(*prompt, 501)))
    engine.run()
    assert [event.num_cached_tokens for event in other.events if isinstance(event, Started)] == [100]
    assert other.endings
    assert len([event for event in held.events if isinstance(event, TokenBatch)]) == 1
    engine.resume("held")
    engine.run()
    engine.check_all_free()
