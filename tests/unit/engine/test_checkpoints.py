"""The core with a memory that cannot be cut: where states are copied, and what goes on from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference.domain.cache_retention import CacheRetention
from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.domain.events import Started
from inference.engine.plan import StepOutcome
from tests.unit.engine.scripted_engine_parts import Engine, RecordingSink, make_request, with_media

COMMON = tuple(range(10, 210))


def make_engine(*, num_lanes: int = 4, host_cache_bytes: int = 10_000_000, **config: float) -> Engine:
    sizes: dict[str, float] = {"max_batch_tokens": 64, "max_prefill_tokens_beside_decodes": 32, **config}
    return Engine(
        num_lanes=num_lanes,
        has_prefix_cache=True,
        can_share_prefixes=False,
        host_cache_bytes=host_cache_bytes,
        **sizes,  # type: ignore[arg-type]
    )


def submit(
    engine: Engine,
    name: str,
    *more: int,
    boundary: int = 0,
    namespace: str = "",
    num_common: int = 200,
    retention: CacheRetention = CacheRetention.UNSAID,
) -> RecordingSink:
    request = make_request(name, prompt=(*COMMON[:num_common], *more), namespace=namespace)
    return engine.submit(replace(request, prefix_boundary=boundary, cache_retention=retention))


def num_cached(sink: RecordingSink) -> int:
    (started,) = [event for event in sink.events if isinstance(event, Started)]
    return started.num_cached_tokens


def saved_at(engine: Engine) -> list[int]:
    return [end for _, _, end in engine.runner.saved]


def cold(engine: Engine) -> ColdPrefixStatistics:
    return engine.core.statistics(is_alive=True).cold


@pytest.mark.parametrize(
    ("boundary", "expected"),
    [(0, 195), (150, 150), (199, 199), (200, 195), (63, 203), (7, 203)],
)
def test_states_are_copied_at_the_boundary_or_near_the_end_and_at_the_last(
    boundary: int, expected: int
) -> None:
    engine = make_engine()
    submit(engine, "a", boundary=boundary)
    engine.run()
    assert saved_at(engine) == sorted({expected, 203})
    assert engine.runner.plans[-1].num_tokens == 1
    engine.check_all_free()


def test_the_longest_state_that_is_a_beginning_is_gone_on_from() -> None:
    engine = make_engine()
    submit(engine, "a", boundary=150)
    engine.run()
    same = submit(engine, "b", 100, 101, 102, 500)
    part = submit(engine, "c", 500)
    engine.run()
    assert (num_cached(same), num_cached(part)) == (203, 150)
    assert same.token_ids == part.token_ids == [100, 101, 102, 103]
    assert (cold(engine).total_restores, cold(engine).total_restored_tokens) == (2, 353)
    engine.check_all_free()


def test_where_prompts_part_a_state_is_copied_for_the_next_one() -> None:
    engine = make_engine()
    tails = [tuple(range(300 + 100 * index, 380 + 100 * index)) for index in range(3)]
    sinks = []
    for index, tail in enumerate(tails):
        sinks.append(submit(engine, f"r{index}", *tail, num_common=120))
        engine.run()
    assert [num_cached(sink) for sink in sinks] == [0, 0, 120]
    engine.check_all_free()


def test_a_prompt_that_is_too_short_is_not_copied() -> None:
    engine = make_engine()
    submit(engine, "a", num_common=60)
    engine.run()
    assert saved_at(engine) == []


def test_the_boundary_of_what_comes_behind_a_picture_is_nothing() -> None:
    engine = make_engine(min_cached_tokens=8)
    prompt = (*COMMON[:50], *[0] * 20, *COMMON[50:100])
    for name in ("a", "b"):
        request = replace(make_request(name, prompt=prompt), prefix_boundary=100)
        sink = engine.submit(with_media(request, (50, 20, "cat")))
        engine.run()
    # Both have the beginning in common, but nobody knew that before the second one.
    assert num_cached(sink) == 0
    engine.check_all_free()


def test_namespaces_do_not_find_each_other() -> None:
    engine = make_engine()
    submit(engine, "a")
    engine.run()
    sink = submit(engine, "b", namespace="other")
    engine.run()
    assert num_cached(sink) == 0


def test_one_that_gives_way_before_it_is_taken_back_is_computed() -> None:
    engine = make_engine()
    submit(engine, "a")
    engine.run()
    sink = submit(engine, "b", 500)
    engine.core._let_in()
    checkpoints = engine.core._memory._checkpoints
    for piece in checkpoints._tier.pieces():
        checkpoints._tier.drop(piece.key)
        checkpoints._forget(piece)
    engine.run()
    assert num_cached(sink) == 0
    assert sink.token_ids == [100, 101, 102, 103]
    assert cold(engine).total_failures == 0
    engine.check_all_free()


@pytest.mark.parametrize("trouble", [False, OSError("gone")])
def test_a_state_that_is_refused_is_forgotten(trouble: bool | Exception) -> None:
    engine = make_engine()
    submit(engine, "a")
    engine.run()
    engine.runner.state_troubles.append(trouble)
    sink = submit(engine, "b", 500)
    engine.run()
    assert num_cached(sink) == 0
    assert cold(engine).total_failures == 1
    engine.check_all_free()


def test_after_a_failure_nothing_is_copied() -> None:
    engine = make_engine()
    engine.runner.poisoned.add("a")
    submit(engine, "a", num_common=64)
    engine.run()
    assert saved_at(engine) == []
    engine.check_all_free()


def test_a_step_that_is_broken_off_computes_all_again_and_copies_all_places() -> None:
    engine = make_engine()
    submit(engine, "a", boundary=150)
    engine.core.step()
    engine.runner.outcomes.append(StepOutcome.ABORTED)
    engine.runner.num_rows_before_trouble = 3
    engine.run()
    assert saved_at(engine) == [150, 203]
    engine.check_all_free()


def test_states_for_a_day_outlive_others() -> None:
    engine = make_engine()
    submit(engine, "size")
    engine.run()
    num_bytes = cold(engine).num_bytes
    engine = make_engine(host_cache_bytes=2 * num_bytes)
    submit(engine, "kept", retention=CacheRetention.DAY)
    for index in range(5):
        submit(engine, f"r{index}", namespace=f"{index}")
        engine.run()
    sink = submit(engine, "again", 500)
    engine.run()
    assert num_cached(sink) == 195
    engine.check_all_free()


def test_without_bytes_nothing_is_copied() -> None:
    engine = make_engine(host_cache_bytes=0)
    submit(engine, "a", boundary=150)
    engine.run()
    assert saved_at(engine) == []
    assert len(engine.runner.plans) == 4 + 3


def test_answers_beside_each_other_leave_the_state_of_their_prompt_alone() -> None:
    engine = make_engine()
    for index in range(3):
        request = make_request(f"r{index}", prompt=COMMON, group="siblings")
        engine.submit(replace(request, prefix_boundary=150))
    engine.run()
    assert set(saved_at(engine)) == {150}
    engine.check_all_free()


def test_a_prompt_whose_logits_are_wanted_is_computed() -> None:
    engine = make_engine()
    submit(engine, "a")
    engine.run()
    request = replace(make_request("b", prompt=(*COMMON, 500)), num_prompt_logprobs=0)
    sink = engine.submit(request)
    engine.run()
    assert num_cached(sink) == 0
    engine.check_all_free()
