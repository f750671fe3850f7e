"""The core with a prefix cache: who waits for whom, what is shared, and what gives way."""

from __future__ import annotations

import numpy as np
import pytest

from inference.domain.errors import GenerationFailed
from inference.domain.events import Dropped, Failed, Finished, Started
from inference.engine.plan import StepOutcome
from inference.engine.sequence import PREFILLING, WAITING_FOR_PREFIX, InvalidTransition
from tests.unit.engine.scripted_engine_parts import Engine, RecordingSink, make_request

COMMON = tuple(range(10, 210))


def make_engine(*, num_lanes: int = 4, **config: float) -> Engine:
    sizes: dict[str, float] = {"max_batch_tokens": 64, "max_prefill_tokens_beside_decodes": 32, **config}
    return Engine(num_lanes=num_lanes, has_prefix_cache=True, **sizes)  # type: ignore[arg-type]


def submit(
    engine: Engine, name: str, *more: int, max_tokens: int = 4, namespace: str = "", num_common: int = 200
) -> RecordingSink:
    prompt = (*COMMON[:num_common], *more)
    return engine.submit(make_request(name, prompt=prompt, max_tokens=max_tokens, namespace=namespace))


def num_cached(sink: RecordingSink) -> int:
    started = sink.events[0]
    assert isinstance(started, Started)
    return started.num_cached_tokens


def num_prefilled(engine: Engine) -> int:
    return engine.core.statistics(is_alive=True).total_prefill_tokens


def num_waiting(engine: Engine) -> int:
    return engine.core.statistics(is_alive=True).num_waiting_for_prefix


def test_simultaneous_prompts_wait_for_the_first_one() -> None:
    engine = make_engine()
    sinks = [submit(engine, f"r{index}", 500 + index) for index in range(4)]
    engine.core.step()
    assert num_waiting(engine) == 3
    assert [len(sink.events) for sink in sinks] == [1, 0, 0, 0]
    engine.run()
    assert num_prefilled(engine) == 200 + 4
    assert [num_cached(sink) for sink in sinks] == [0, 200, 200, 200]
    assert all(sink.token_ids == [100, 101, 102, 103] for sink in sinks)
    engine.check_all_free()


def test_those_who_share_more_with_each_other_wait_again() -> None:
    engine = make_engine(num_lanes=3)
    tail = tuple(range(300, 400))
    submit(engine, "a", 500)
    submit(engine, "b", *tail, 501)
    submit(engine, "c", *tail, 502)
    engine.run()
    assert num_prefilled(engine) == 201 + 101 + 1
    engine.check_all_free()


def test_a_beginning_of_others_that_is_too_short_is_not_waited_for() -> None:
    engine = make_engine()
    submit(engine, "a", 500, num_common=63)
    submit(engine, "b", 501, num_common=63)
    engine.core.step()
    assert num_waiting(engine) == 0


def test_a_newcomer_takes_what_a_running_answer_has() -> None:
    engine = make_engine()
    submit(engine, "a", 500, max_tokens=50)
    while not engine.core.statistics(is_alive=True).num_decoding:
        engine.core.step()
    late = submit(engine, "b", 501)
    engine.core.step()
    assert num_cached(late) == 200
    assert late.token_ids == [100]
    engine.run()
    engine.check_all_free()


def test_the_next_turn_finds_prompt_and_answer() -> None:
    engine = make_engine()
    first = submit(engine, "a", max_tokens=6)
    engine.run()
    second = submit(engine, "b", *first.token_ids, 500)
    engine.run()
    # All but the answer's last token, which was drawn and not computed.
    assert num_cached(second) == 205
    engine.check_all_free()


@pytest.mark.parametrize("end", ["cancel", "fail", "preempt", "hold"])
def test_where_the_leader_gives_up_the_oldest_that_waits_takes_over(end: str) -> None:
    engine = make_engine()
    sinks = [submit(engine, f"r{index}", 500 + index) for index in range(4)]
    engine.core.step()
    leader, heir = engine.core._scheduler.sequences[:2]
    num_computed = leader.num_computed
    assert 64 <= num_computed < 200 or num_computed >= 32
    if end == "cancel":
        engine.cancel("r0")
    elif end == "fail":
        engine.core._fail(leader, GenerationFailed("broken"))
    elif end == "hold":
        engine.hold("r0")
    else:
        engine.core._memory.rewind(leader.sequence_id, 0)
        engine.core._scheduler.preempt(leader)
    engine.core._take_back_cancelled()
    engine.core._hold_and_resume()
    engine.core._wake_waiting()
    assert heir.state is PREFILLING
    assert [one.leader for one in engine.core._scheduler.waiting_for_prefix()] == [heir, heir]
    engine.run()
    for sink in sinks[1:]:
        assert sink.token_ids == [100, 101, 102, 103]
    assert [num_cached(sink) for sink in sinks[2:]] == [200, 200]
    if end == "hold":
        assert sinks[0].token_ids == []
        engine.resume("r0")
        engine.run()
        assert sinks[0].token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_cancel_while_waiting_leaves_nothing() -> None:
    engine = make_engine()
    submit(engine, "a", 500)
    waiting = submit(engine, "b", 501)
    engine.core.step()
    engine.cancel("b")
    engine.run()
    assert [type(event) for event in waiting.events] == [Dropped]
    engine.check_all_free()


def test_one_that_waits_has_no_cells_to_give_and_is_never_preempted() -> None:
    engine = make_engine(num_lanes=3)
    engine.submit(make_request("old", prompt=(7,) * 10, max_tokens=30))
    submit(engine, "leader", 500)
    submit(engine, "waits", 501)
    engine.core.step()
    engine.runner.outcomes.append(StepOutcome.NO_CELLS)
    engine.core.step()
    states = {one.request.request_id: one.state.value for one in engine.core._scheduler.sequences}
    assert states["leader"] == "preempted"
    assert states["waits"] == "waiting for a prefix"
    engine.core.step()
    engine.run()
    engine.check_all_free()


def test_a_long_leader_is_served_as_urgently_as_those_who_wait_for_it() -> None:
    engine = make_engine(num_lanes=4)
    # The oldest has its quarter, the shortest remainder the rest of each step.
    engine.submit(make_request("oldest", prompt=(5,) * 900, max_tokens=1))
    submit(engine, "leader", *range(300, 700))
    engine.submit(make_request("other", prompt=(6,) * 350, max_tokens=1))
    engine.core.step()
    leader = engine.core._scheduler.sequences[1]
    had = leader.num_computed
    engine.core.step()
    assert leader.num_computed == had
    submit(engine, "waits", 500)
    engine.core.step()
    assert num_waiting(engine) == 1
    assert leader.num_computed > had
    engine.run()
    engine.check_all_free()


def test_namespaces_neither_share_nor_wait() -> None:
    engine = make_engine()
    sinks = [submit(engine, name, namespace=name) for name in ("a", "b", "")]
    engine.core.step()
    assert num_waiting(engine) == 0
    engine.run()
    again = submit(engine, "again", namespace="c")
    engine.run()
    assert [num_cached(sink) for sink in (*sinks, again)] == [0, 0, 0, 0]
    engine.check_all_free()


@pytest.mark.parametrize("trouble", [False, OSError("no copy")])
def test_a_copy_that_fails_is_a_miss(trouble: bool | Exception) -> None:
    engine = make_engine()
    submit(engine, "a", 500)
    engine.run()
    engine.runner.copy_troubles.append(trouble)
    sink = submit(engine, "b", 501)
    engine.run()
    assert num_cached(sink) == 0
    assert sink.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_cells_that_cannot_be_kept_are_freed() -> None:
    engine = make_engine()

    def keep_sequence(sequence_id: int, num_tokens: int) -> bool:
        return False

    engine.runner.keep_sequence = keep_sequence  # type: ignore[method-assign]
    submit(engine, "a", 500)
    engine.run()
    assert engine.runner.num_used_cells == 0
    engine.check_all_free()


def test_cells_of_a_failed_sequence_are_not_kept() -> None:
    engine = make_engine()
    engine.runner.poisoned = {"bad"}
    bad = submit(engine, "bad", 500)
    engine.run()
    assert isinstance(bad.events[-1], Failed)
    assert engine.core.statistics(is_alive=True).num_cells_cached == 0
    engine.check_all_free()


def test_idle_cells_go_before_anybody_is_preempted() -> None:
    engine = make_engine(num_cells=600, num_lanes=2, max_cached_cells=300)
    for index in range(3):
        engine.submit(make_request(f"old {index}", prompt=(20 + index,) * 90, max_tokens=1))
        engine.run()
    assert engine.core.statistics(is_alive=True).num_cells_cached == 270
    sinks = [
        engine.submit(make_request(f"r{index}", prompt=(30 + index,) * 200, max_tokens=80))
        for index in range(2)
    ]
    engine.run()
    assert all(isinstance(sink.events[-1], Finished) and len(sink.token_ids) == 80 for sink in sinks)
    statistics = engine.core.statistics(is_alive=True)
    assert statistics.total_preemptions == 0
    assert statistics.cache.total_evictions > 0
    engine.check_all_free()


def test_what_llama_refuses_makes_entries_give_way_first() -> None:
    engine = make_engine()
    submit(engine, "a", 500)
    engine.run()
    sink = engine.submit(make_request("b", prompt=(7,) * 30, max_tokens=3))
    engine.runner.outcomes.append(StepOutcome.NO_CELLS)
    engine.run()
    assert len(sink.token_ids) == 3
    assert engine.core.statistics(is_alive=True).cache.total_evictions == 1
    engine.check_all_free()


def test_one_that_comes_back_takes_what_others_have() -> None:
    engine = make_engine(num_cells=300, num_lanes=2, resume_headroom_tokens=1, max_cached_cells=300)
    sinks = [
        submit(engine, name, *range(500 + 40 * n, 540 + 40 * n), max_tokens=40) for n, name in enumerate("ab")
    ]
    engine.run()
    assert engine.core.statistics(is_alive=True).total_preemptions == 1
    assert all(sink.token_ids == [100 + index for index in range(40)] for sink in sinks)
    # Only the part that was its own is computed twice.
    assert num_prefilled(engine) < 200 + 2 * 40 + 2 * 40
    assert engine.core.statistics(is_alive=True).cache.total_hits == 2
    engine.check_all_free()


def test_a_model_whose_memory_cannot_be_shared_has_no_cache(caplog: pytest.LogCaptureFixture) -> None:
    engine = make_engine()
    engine.runner.can_share_prefixes = False
    with caplog.at_level("INFO"):
        core = type(engine.core)(
            engine.runner, engine.config, engine.admission, engine.clock, engine._deliver
        )
    engine.core = core
    assert caplog.text.count("cannot be shared in part") == 1
    sinks = [submit(engine, name) for name in "ab"]
    engine.run()
    assert [num_cached(sink) for sink in sinks] == [0, 0]
    assert engine.runner.num_used_cells == 0
    engine.check_all_free()


def test_affinity_tells_without_a_trace() -> None:
    engine = make_engine()
    submit(engine, "a", 500)
    engine.run()
    affinity = engine.core._memory.affinity
    before = affinity.statistics
    prompts = [np.array((*COMMON, 9, 9), dtype=np.int32)]
    assert affinity.matched_tokens(namespace="", prompts=prompts, num_shared=[0]) == [200]
    assert affinity.matched_tokens(namespace="x", prompts=prompts, num_shared=[0]) == [0]
    assert affinity.statistics == before


def test_a_sequence_waits_only_for_older_ones_that_compute_their_prompt() -> None:
    engine = make_engine()
    submit(engine, "a", 500)
    submit(engine, "b", 501)
    engine.core.step()
    first, second = engine.core._scheduler.sequences
    assert second.state is WAITING_FOR_PREFIX
    with pytest.raises(InvalidTransition):
        first.wait_for(second, 100)
    with pytest.raises(InvalidTransition):
        second.adopt(100)
    second.stop_waiting()
    with pytest.raises(InvalidTransition):
        second.adopt(201)
