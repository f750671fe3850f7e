"""Many answers to one prompt with real cells: one prefill, and each answer as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inference.domain.requests import SamplingParams
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from tests.model.engine_kinds import KINDS, KindOfModel
from tests.model.stepped_engine import SteppedEngine, chat
from tests.model.test_engine_batching import F32_NOISE, distance
from tests.model.watched_engine import WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

NUM_ANSWERS = 8
SHORT = tuple(range(1000, 1020))
LONG = tuple(1000 + (index * 37) % 5000 for index in range(300))
SAMPLING = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def config(*, has_prefix_cache: bool = True, num_lanes: int = NUM_ANSWERS) -> EngineConfig:
    return EngineConfig(num_lanes=num_lanes, num_cells=4096, num_threads=1, has_prefix_cache=has_prefix_cache)


def submit_all(
    engine: SteppedEngine,
    prompt: str | tuple[int, ...],
    *,
    group: str = "g",
    max_tokens: int = 6,
    ignore_eos: bool = True,
) -> list[RecordingSink]:
    return [
        engine.submit(
            f"r{index}",
            prompt,
            max_tokens=max_tokens,
            ignore_eos=ignore_eos,
            sampling=replace(SAMPLING, seed=5 + index),
            group=group,
        )
        for index in range(NUM_ANSWERS)
    ]


@pytest.mark.parametrize("has_prefix_cache", [True, False])
@pytest.mark.parametrize("prompt", [SHORT, LONG])
def test_eight_answers_cost_one_prefill(
    tiny_model: LlamaModel, prompt: tuple[int, ...], has_prefix_cache: bool
) -> None:
    with SteppedEngine(tiny_model, config(has_prefix_cache=has_prefix_cache)) as engine:
        sinks = submit_all(engine, prompt)
        while engine.core.step():
            engine.check()
        statistics = engine.core.statistics(is_alive=True)
        assert statistics.total_prefill_tokens == len(prompt) + NUM_ANSWERS - 1
        assert all(len(sink.token_ids) == 6 for sink in sinks)
        engine.check_all_free()


@pytest.mark.parametrize("num_lanes", [1, 3])
def test_fewer_lanes_than_answers(tiny_model: LlamaModel, num_lanes: int) -> None:
    with SteppedEngine(tiny_model, config(num_lanes=num_lanes)) as engine:
        sinks = submit_all(engine, SHORT)
        engine.run()
        assert engine.core.statistics(is_alive=True).total_prefill_tokens == len(SHORT) + NUM_ANSWERS - 1
        assert all(len(sink.token_ids) == 6 for sink in sinks)
        engine.check_all_free()


@pytest.mark.parametrize("prompt", [SHORT, LONG])
def test_answers_of_siblings_are_those_of_separate_requests(
    tiny_model: LlamaModel, prompt: tuple[int, ...]
) -> None:
    with WatchedEngine(tiny_model, config(has_prefix_cache=False)) as alone:
        expected = submit_all(alone, prompt, group="", ignore_eos=False)
        alone.run()
        assert alone.core.statistics(is_alive=True).total_prefill_tokens == len(prompt) * NUM_ANSWERS
    with WatchedEngine(tiny_model, config()) as together:
        found = submit_all(together, prompt, ignore_eos=False)
        together.run()
    num_alike = 0
    for index in range(NUM_ANSWERS):
        own, others = alone.logits[f"r{index}"], together.logits[f"r{index}"]
        pairs = list(zip(expected[index].token_ids, found[index].token_ids, strict=False))
        for step, (one, other) in enumerate(pairs):
            # The logits agree as long as the tokens before them do; a draw on the edge may part them.
            assert distance(own[step], others[step]) < F32_NOISE, (index, step)
            if one != other:
                break
        num_alike += expected[index].token_ids[:2] == found[index].token_ids[:2]
    assert num_alike >= NUM_ANSWERS - 2
    assert len({tuple(sink.token_ids) for sink in found}) == NUM_ANSWERS


def test_a_real_model_answers_differently_and_in_words(model: LlamaModel) -> None:
    with SteppedEngine(model, config()) as engine:
        prompt = chat("Name an animal.")
        sinks = submit_all(engine, prompt, max_tokens=12)
        engine.run()
        num_tokens = len(model.tokenizer.tokenize(prompt, add_special=True, parse_special=True))
        assert engine.core.statistics(is_alive=True).total_prefill_tokens == num_tokens + NUM_ANSWERS - 1
        assert len({tuple(sink.token_ids) for sink in sinks}) > 1
        engine.check_all_free()


@pytest.fixture(params=["recurrent", "hybrid", "window", "window only"])
def other_kind(request: pytest.FixtureRequest, model_path: Path, tmp_path: Path) -> Iterator[KindOfModel]:
    kind = KINDS[request.param]
    loaded = LlamaModel.load(kind.write(model_path, tmp_path / "tiny.gguf"), kind.config())
    yield KindOfModel(kind, loaded)
    loaded.close()


@pytest.mark.parametrize("prompt", [SHORT, LONG])
def test_other_kinds_of_memory_are_shared_too(other_kind: KindOfModel, prompt: tuple[int, ...]) -> None:
    kind = other_kind.kind
    sizes = kind.config(num_lanes=NUM_ANSWERS)
    with WatchedEngine(other_kind.model, replace(sizes, has_prefix_cache=False)) as alone:
        expected = submit_all(alone, prompt, group="", ignore_eos=False)
        alone.run()
    with WatchedEngine(other_kind.model, sizes) as together:
        found = submit_all(together, prompt, ignore_eos=False)
        together.run()
        statistics = together.core.statistics(is_alive=True)
        assert statistics.total_prefill_tokens == len(prompt) + NUM_ANSWERS - 1
    for index in range(NUM_ANSWERS):
        own, others = alone.logits[f"r{index}"], together.logits[f"r{index}"]
        pairs = zip(expected[index].token_ids, found[index].token_ids, strict=False)
        for step, (one, other) in enumerate(pairs):
            assert distance(own[step], others[step]) < kind.noise, (index, step)
            if one != other:
                break
