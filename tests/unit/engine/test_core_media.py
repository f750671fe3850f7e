"""Prompts with embeddings in them: in batches of their own, whole where they must be, shared whole."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from inference.domain.events import Failed, Finished, Started
from inference.domain.media_run import MediaRun
from inference.engine.plan import StepOutcome
from tests.unit.engine.scripted_engine_parts import (
    Engine,
    RecordingSink,
    make_request,
    rows_of,
    with_media,
)


def num_cached(sink: RecordingSink) -> int:
    started = sink.events[0]
    assert isinstance(started, Started)
    return started.num_cached_tokens


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize(
    "places",
    [
        [(5, 16, "a")],
        [(0, 16, "a")],
        [(24, 16, "a")],  # up to the very end: the first token is drawn from an embedding's logits
        [(0, 40, "a")],
        [(3, 8, "a"), (11, 8, "b"), (30, 5, "a")],
        [(0, 1, "a"), (39, 1, "b")],
    ],
)
def test_each_run_is_computed_in_its_place(places: list[tuple[int, int, str]], is_causal: bool) -> None:
    engine = Engine()
    sink = engine.submit(with_media(make_request(prompt=40), *places, is_causal=is_causal))
    engine.run()
    assert isinstance(sink.events[-1], Finished)
    assert len(sink.token_ids) == 4
    assert sum(plan.num_tokens for plan in engine.runner.plans if plan.embeddings is not None) == sum(
        count for _, count, _ in places
    )
    engine.check_all_free()


def test_streams_go_on_between_the_steps_of_a_picture() -> None:
    engine = Engine(max_batch_tokens=64, max_prefill_tokens_beside_decodes=32)
    talker = engine.submit(make_request("talker", max_tokens=200))
    for _ in range(3):
        engine.core.step()
    engine.submit(with_media(make_request("looker", prompt=330), (5, 320, "a")))
    num_before, first = len(talker.token_ids), len(engine.runner.plans)
    while not engine.sinks["looker"].token_ids:
        engine.core.step()
    plans = engine.runner.plans[first:]
    media = [plan.embeddings is not None for plan in plans]
    assert sum(media) == 10
    assert all(plan.num_tokens <= 32 for plan in plans if plan.embeddings is not None)
    # Never two steps of embeddings without one for everybody else between them.
    assert not any(one and other for one, other in pairwise(media))
    assert len(talker.token_ids) - num_before >= 9
    engine.run()
    engine.check_all_free()


def test_pictures_of_several_prompts_are_computed_together() -> None:
    engine = Engine(max_batch_tokens=256)
    for name in ("a", "b", "c"):
        engine.submit(with_media(make_request(name, prompt=30), (4, 16, name)))
    engine.run()
    assert [plan.num_tokens for plan in engine.runner.plans if plan.embeddings is not None] == [48]
    engine.check_all_free()


def test_what_is_not_causal_is_computed_alone_and_whole_whatever_the_budget() -> None:
    engine = Engine(max_batch_tokens=256, max_prefill_tokens_beside_decodes=32)
    engine.submit(make_request("talker", max_tokens=100))
    engine.core.step()
    for name in ("a", "b"):
        engine.submit(with_media(make_request(name, prompt=210), (4, 200, name), is_causal=False))
    engine.run()
    assert [plan.num_tokens for plan in engine.runner.plans if plan.embeddings is not None] == [200, 200]
    engine.check_all_free()


def test_the_same_picture_is_there_already_and_another_one_is_not() -> None:
    engine = Engine(has_prefix_cache=True, min_cached_tokens=4)
    for name, picture in (("first", "a"), ("same", "a"), ("other", "b")):
        engine.submit(with_media(make_request(name, prompt=40), (5, 16, picture)))
        engine.run()
    assert [num_cached(engine.sinks[name]) for name in ("first", "same", "other")] == [0, 39, 5]
    engine.check_all_free()


def test_no_part_of_a_picture_is_shared() -> None:
    """Ids that are equal by chance, or a prompt that ends with the picture: all of a run or nothing."""
    engine = Engine(has_prefix_cache=True, min_cached_tokens=4)
    first = with_media(make_request("first", prompt=40), (5, 16, "a"))
    engine.submit(first)
    engine.run()
    ids = list(first.prompt_token_ids)
    ids[12] = -77  # the other picture's ids differ in the middle only
    run = MediaRun(5, rows_of(tuple(ids[5:21])))
    engine.submit(replace(first, request_id="alike", prompt_token_ids=tuple(ids), media=(run,)))
    engine.submit(with_media(make_request("last", prompt=21), (5, 16, "a")))
    engine.run()
    assert num_cached(engine.sinks["alike"]) == 5
    assert num_cached(engine.sinks["last"]) == 5
    engine.check_all_free()


def test_a_short_beginning_before_a_picture_is_not_worth_sharing() -> None:
    engine = Engine(has_prefix_cache=True, min_cached_tokens=8)
    for name in ("a", "b"):
        engine.submit(with_media(make_request(name, prompt=40), (5, 16, name)))
    engine.run()
    assert num_cached(engine.sinks["b"]) == 0
    engine.check_all_free()


def test_who_comes_at_the_same_time_waits_for_the_picture() -> None:
    engine = Engine(has_prefix_cache=True, min_cached_tokens=8)
    for name in ("a", "b", "c"):
        engine.submit(with_media(make_request(name, prompt=40), (5, 30, "same")))
    engine.run()
    assert [num_cached(engine.sinks[name]) for name in ("a", "b", "c")] == [0, 39, 39]
    assert sum(plan.num_tokens for plan in engine.runner.plans if plan.embeddings is not None) == 30
    engine.check_all_free()


@pytest.mark.parametrize("is_causal", [True, False])
def test_a_preempted_picture_is_computed_again(is_causal: bool) -> None:
    engine = Engine(num_cells=128, max_batch_tokens=64, resume_headroom_tokens=1)
    for name in ("a", "b"):
        engine.submit(
            with_media(make_request(name, prompt=40, max_tokens=60), (5, 30, name), is_causal=is_causal)
        )
    engine.run()
    assert engine.core.statistics(is_alive=True).total_preemptions > 0
    assert all(len(sink.token_ids) == 60 for sink in engine.sinks.values())
    engine.check_all_free()


@pytest.mark.parametrize("num_rows", [0, 1, 7, 15])
def test_a_step_that_came_half_way_begins_the_picture_anew(num_rows: int) -> None:
    engine = Engine()
    sink = engine.submit(with_media(make_request(prompt=30), (4, 16, "a")))
    engine.core.step()
    engine.runner.num_rows_before_trouble = num_rows
    engine.runner.outcomes = deque([StepOutcome.ABORTED])
    engine.run()
    engine.check()
    starts = [plan.positions[0] for plan in engine.runner.plans if plan.embeddings is not None]
    assert starts == [4, 4]
    assert len(sink.token_ids) == 4
    engine.check_all_free()


def test_one_whose_embeddings_break_the_step_fails_alone() -> None:
    engine = Engine()
    engine.submit(make_request("talker", max_tokens=20))
    engine.submit(with_media(make_request("good", prompt=30), (4, 16, "a")))
    engine.submit(with_media(make_request("bad", prompt=30), (4, 16, "b")))
    engine.runner.poisoned = {"bad"}
    engine.run()
    assert isinstance(engine.sinks["bad"].events[-1], Failed)
    assert len(engine.sinks["good"].token_ids) == 4
    assert len(engine.sinks["talker"].token_ids) == 20
    engine.check_all_free()


def test_a_cancelled_picture_leaves_nothing() -> None:
    engine = Engine(max_batch_tokens=32)
    engine.submit(with_media(make_request("a", prompt=120), (4, 100, "a")))
    engine.core.step()
    engine.core.step()
    engine.cancel("a")
    engine.run()
    engine.check_all_free()


@pytest.mark.parametrize(
    ("runs", "ids"),
    [
        ((), (1, -5, 3)),  # a made-up id without embeddings
        (((1, 2),), (1, -5, 3)),  # an id of the vocabulary where embeddings are
        (((1, 1),), (1, -5, 5000)),
        (((1, 1),), (-1, -5, 3)),
        (((2, 2),), (1, 2, -5)),  # behind the end
        (((1, 1), (1, 1)), (1, -5, 3)),
        (((2, 1), (0, 1)), (-1, 1, -5)),
        (((0, 0),), (1, 2)),
    ],
)
def test_ids_and_embeddings_must_agree(runs: tuple[tuple[int, int], ...], ids: tuple[int, ...]) -> None:
    engine = Engine()
    media = tuple(MediaRun(start, np.zeros((count, 2), np.float32)) for start, count in runs)
    sink = engine.submit(replace(make_request(prompt=ids), media=media))
    engine.run()
    assert isinstance(sink.events[-1], Failed)
    assert not engine.runner.plans
    engine.check_all_free()
