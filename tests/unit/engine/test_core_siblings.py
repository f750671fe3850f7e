"""The core with many answers to one prompt: it is computed once, however short it is."""

from __future__ import annotations

import pytest

from inference.domain.backend import HoldReason
from inference.domain.events import Finished, Started
from inference.engine.plan import StepOutcome
from tests.unit.engine.scripted_engine_parts import Engine, RecordingSink, make_request

SHORT = tuple(range(10, 30))


def make_engine(*, num_lanes: int = 8, has_prefix_cache: bool = True, **config: float) -> Engine:
    sizes: dict[str, float] = {"max_batch_tokens": 64, "max_prefill_tokens_beside_decodes": 32, **config}
    return Engine(num_lanes=num_lanes, has_prefix_cache=has_prefix_cache, **sizes)  # type: ignore[arg-type]


def submit(
    engine: Engine,
    num: int,
    *,
    prompt: tuple[int, ...] = SHORT,
    group: str = "g",
    max_tokens: int = 4,
    first: int = 0,
) -> list[RecordingSink]:
    return [
        engine.submit(
            make_request(f"{group}{first + index}", prompt=prompt, max_tokens=max_tokens, group=group)
        )
        for index in range(num)
    ]


def num_prefilled(engine: Engine) -> int:
    return engine.core.statistics(is_alive=True).total_prefill_tokens


def cached(sinks: list[RecordingSink]) -> list[int]:
    starts = [next(event for event in sink.events if isinstance(event, Started)) for sink in sinks]
    return [start.num_cached_tokens for start in starts]


@pytest.mark.parametrize("has_prefix_cache", [True, False])
@pytest.mark.parametrize("length", [1, 2, 20, 200])
def test_siblings_cost_one_prefill(length: int, has_prefix_cache: bool) -> None:
    engine = make_engine(has_prefix_cache=has_prefix_cache)
    sinks = submit(engine, 8, prompt=tuple(range(10, 10 + length)))
    engine.run()
    assert num_prefilled(engine) == length + 7
    assert cached(sinks) == [0] + [length - 1] * 7
    assert all(sink.token_ids == [100, 101, 102, 103] for sink in sinks)
    engine.check_all_free()


@pytest.mark.parametrize("has_prefix_cache", [True, False])
def test_strangers_with_the_same_short_prompt_share_nothing(has_prefix_cache: bool) -> None:
    engine = make_engine(has_prefix_cache=has_prefix_cache)
    submit(engine, 2, group="a")
    submit(engine, 2, group="b")
    engine.submit(make_request("alone", prompt=SHORT))
    engine.run()
    assert num_prefilled(engine) == 3 * 20 + 2
    engine.check_all_free()


def test_without_a_cache_long_prompts_of_strangers_are_not_shared() -> None:
    engine = make_engine(has_prefix_cache=False)
    prompt = tuple(range(10, 210))
    submit(engine, 2, prompt=prompt)
    engine.submit(make_request("alone", prompt=prompt))
    engine.run()
    assert num_prefilled(engine) == 200 + 1 + 200
    engine.check_all_free()


@pytest.mark.parametrize("num_lanes", [1, 2, 3])
def test_those_who_come_after_their_leader_has_ended_find_its_prompt(num_lanes: int) -> None:
    engine = make_engine(num_lanes=num_lanes)
    sinks = submit(engine, 8)
    engine.run()
    assert num_prefilled(engine) == 20 + 7
    assert all(isinstance(sink.events[-1], Finished) for sink in sinks)
    engine.check_all_free()


def test_a_leader_that_is_held_is_not_waited_for() -> None:
    engine = make_engine(num_lanes=4, max_batch_tokens=32)
    prompt = tuple(range(10, 210))
    sinks = submit(engine, 3, prompt=prompt)
    engine.core.step()
    engine.hold("g0", HoldReason.READER)
    while not all(sink.endings for sink in sinks[1:]):
        engine.core.step()
    assert not sinks[0].endings
    engine.resume("g0", HoldReason.READER)
    engine.run()
    assert sinks[0].endings
    engine.check_all_free()


@pytest.mark.parametrize("trouble", [StepOutcome.ABORTED, OSError("gone")])
def test_siblings_survive_a_step_that_goes_wrong(trouble: StepOutcome | Exception) -> None:
    engine = make_engine()
    engine.runner.outcomes.append(trouble)
    sinks = submit(engine, 4)
    engine.run()
    assert all(sink.token_ids == [100, 101, 102, 103] for sink in sinks)
    engine.check_all_free()


def test_siblings_of_a_leader_that_fails_go_on_without_it() -> None:
    engine = make_engine()
    engine.runner.poisoned.add("g0")
    sinks = submit(engine, 3)
    engine.run()
    assert [sink.token_ids for sink in sinks] == [[], [100, 101, 102, 103], [100, 101, 102, 103]]
    assert num_prefilled(engine) == 20 + 1
    engine.check_all_free()


def test_a_cancelled_leader_leaves_the_others_what_is_there() -> None:
    engine = make_engine(max_batch_tokens=32)
    prompt = tuple(range(10, 210))
    sinks = submit(engine, 3, prompt=prompt)
    engine.core.step()
    engine.cancel("g0")
    engine.run()
    assert all(sink.endings for sink in sinks[1:])
    assert num_prefilled(engine) == 200 + 1
    engine.check_all_free()


def test_many_answers_leave_one_entry_and_few_short_ones_stay() -> None:
    engine = make_engine(num_lanes=8)
    submit(engine, 8, prompt=tuple(range(10, 210)), group="long", max_tokens=8)
    engine.run()
    assert engine.core.statistics(is_alive=True).cache.num_entries == 1
    for index in range(10):
        submit(engine, 2, prompt=(*SHORT, 500 + index), group=f"short{index}")
        engine.run()
    assert engine.core.statistics(is_alive=True).cache.num_entries == 1 + 4
    engine.check_all_free()


def make_whole_engine(*, num_lanes: int = 8, has_prefix_cache: bool = True) -> Engine:
    """Nothing of what a sequence remembers can be cut."""
    return Engine(
        num_lanes=num_lanes,
        has_prefix_cache=has_prefix_cache,
        can_share_prefixes=False,
        max_batch_tokens=64,
        max_prefill_tokens_beside_decodes=32,
    )


@pytest.mark.parametrize("has_prefix_cache", [True, False])
@pytest.mark.parametrize("length", [2, 20, 200])
def test_what_cannot_be_cut_is_copied_whole_at_the_end_of_the_prompt(
    length: int, has_prefix_cache: bool
) -> None:
    engine = make_whole_engine(has_prefix_cache=has_prefix_cache)
    sinks = submit(engine, 8, prompt=tuple(range(10, 10 + length)))
    engine.run()
    assert num_prefilled(engine) == length + 7
    assert cached(sinks) == [0] + [length - 1] * 7
    assert all(sink.token_ids == [100, 101, 102, 103] for sink in sinks)
    engine.check_all_free()


def test_who_comes_too_late_for_a_copy_computes_its_own() -> None:
    engine = make_whole_engine()
    early = submit(engine, 2, max_tokens=20)
    for _ in range(5):
        engine.core.step()
    late = submit(engine, 2, first=2)
    engine.run()
    assert num_prefilled(engine) == 20 + 1 + 20 + 1
    assert all(sink.endings for sink in [*early, *late])
    engine.check_all_free()


@pytest.mark.parametrize("num_lanes", [1, 2, 3])
def test_what_cannot_be_cut_with_few_lanes(num_lanes: int) -> None:
    engine = make_whole_engine(num_lanes=num_lanes)
    sinks = submit(engine, 7)
    engine.run()
    assert all(sink.token_ids == [100, 101, 102, 103] for sink in sinks)
    engine.check_all_free()


def test_others_whose_prompts_cannot_be_cut_wait_for_nobody() -> None:
    engine = make_whole_engine()
    engine.submit(make_request("a", prompt=200))
    engine.submit(make_request("b", prompt=200))
    submit(engine, 2, prompt=tuple(range(10, 210)))
    engine.run()
    assert num_prefilled(engine) == 200 + 200 + 200 + 1
    engine.check_all_free()
