"""Shared prefixes with real cells: computed once, right for everybody, and never across a border."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.domain.events import Started
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from inference.engine.sequence import WAITING_FOR_PREFIX
from tests.model.stepped_engine import SteppedEngine
from tests.model.test_engine_batching import F32_NOISE, distance
from tests.model.tiny_recurrent_model import write_tiny_recurrent_model
from tests.model.watched_engine import WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

COMMON = tuple(1000 + (index * 37) % 5000 for index in range(300))
NUM_REQUESTS = 8


def config(*, has_prefix_cache: bool = True, **sizes: int) -> EngineConfig:
    return EngineConfig(
        num_lanes=NUM_REQUESTS, num_cells=4096, num_threads=1, has_prefix_cache=has_prefix_cache, **sizes
    )


def prompt(index: int) -> tuple[int, ...]:
    """300 tokens that all share, then ten of its own."""
    return (*COMMON, *range(7000 + 10 * index, 7010 + 10 * index))


def num_cached(sink: RecordingSink) -> int:
    started = sink.events[0]
    assert isinstance(started, Started)
    return started.num_cached_tokens


def submit_all(engine: SteppedEngine, *, ignore_eos: bool = True) -> list[RecordingSink]:
    return [
        engine.submit(f"r{index}", prompt(index), max_tokens=6, ignore_eos=ignore_eos)
        for index in range(NUM_REQUESTS)
    ]


def test_simultaneous_prompts_compute_their_common_beginning_once(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        sinks = submit_all(engine)
        while engine.core.step():
            engine.check()
        statistics = engine.core.statistics(is_alive=True)
        assert statistics.total_prefill_tokens == 300 + 10 * NUM_REQUESTS
        assert [num_cached(sink) for sink in sinks] == [0] + [300] * (NUM_REQUESTS - 1)
        assert all(len(sink.token_ids) == 6 for sink in sinks)
        assert statistics.cache.total_hits == NUM_REQUESTS - 1
        # Each kept its 310 prompt tokens and five of the answer; 300 of them are the same cells.
        assert statistics.num_cells_cached == 300 + 15 * NUM_REQUESTS
        engine.check_all_free()


def test_answers_with_shared_cells_are_those_without(tiny_model: LlamaModel) -> None:
    with WatchedEngine(tiny_model, config(has_prefix_cache=False)) as alone:
        expected = submit_all(alone, ignore_eos=False)
        alone.run()
        assert alone.core.statistics(is_alive=True).total_prefill_tokens == 310 * NUM_REQUESTS
        alone.check_all_free()
    with WatchedEngine(tiny_model, config()) as shared:
        found = submit_all(shared, ignore_eos=False)
        shared.run()
    for index in range(NUM_REQUESTS):
        own, others = alone.logits[f"r{index}"], shared.logits[f"r{index}"]
        pairs = list(zip(expected[index].token_ids, found[index].token_ids, strict=False))
        assert pairs
        for step, (one, other) in enumerate(pairs):
            assert distance(own[step], others[step]) < F32_NOISE, (index, step)
            if one != other:
                # From a near-tie on the texts go their own ways.
                assert own[step][one] - own[step][other] < F32_NOISE
                break
    # The tokens that differ at the end of the prompts do make a difference.
    assert np.abs(alone.logits["r0"][0] - alone.logits["r1"][0]).max() > 1


def test_a_conversation_goes_on_from_its_cells(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        said = prompt(0)
        for turn in range(4):
            sink = engine.submit(f"turn {turn}", said, max_tokens=8, ignore_eos=True)
            engine.run()
            # The last token of an answer was drawn, but not computed.
            assert num_cached(sink) == (len(said) - 4 if turn else 0)
            said += (*sink.token_ids, 5, 6, 7)
        assert engine.core.statistics(is_alive=True).cache.num_entries == 1
        engine.check_all_free()


def test_the_same_prompt_again_computes_its_last_token(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        first = engine.submit("a", prompt(0), max_tokens=5, ignore_eos=True)
        engine.run()
        again = engine.submit("b", prompt(0), max_tokens=5, ignore_eos=True)
        engine.run()
        assert num_cached(again) == 309
        assert again.token_ids == first.token_ids
        engine.check_all_free()


def test_where_the_leader_is_cancelled_another_takes_over(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config(max_prefill_tokens_beside_decodes=32)) as engine:
        sinks = submit_all(engine)
        engine.core.step()
        num_computed = engine.core.statistics(is_alive=True).num_cells_used
        assert 0 < num_computed < 300
        assert engine.core.statistics(is_alive=True).num_waiting_for_prefix == NUM_REQUESTS - 1
        engine.cancel("r0")
        engine.core.step()
        engine.check()
        states = [sequence.state for sequence in engine.core._scheduler.sequences]
        assert states.count(WAITING_FOR_PREFIX) == NUM_REQUESTS - 2
        engine.run()
        # What the cancelled one had computed was not lost.
        assert [num_cached(sink) for sink in sinks[1:]] == [num_computed] + [300] * (NUM_REQUESTS - 2)
        assert all(len(sink.token_ids) == 6 for sink in sinks[1:])
        assert engine.core.statistics(is_alive=True).total_prefill_tokens == 300 + 10 * (NUM_REQUESTS - 1)
        engine.check_all_free()


def test_different_namespaces_never_hit(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        before = engine.submit("mine", prompt(0), namespace="mine", max_tokens=3, ignore_eos=True)
        engine.run()
        same = engine.submit("still mine", prompt(0), namespace="mine", max_tokens=3, ignore_eos=True)
        others = [
            engine.submit(name, prompt(0), namespace=name, max_tokens=3, ignore_eos=True)
            for name in ("yours", "min", "mine2", "")
        ]
        engine.run()
        assert num_cached(before) == 0
        assert num_cached(same) == 309
        assert [num_cached(sink) for sink in others] == [0, 0, 0, 0]
        engine.check_all_free()


@pytest.mark.parametrize("num_cells", [768, 1024])
def test_idle_cells_give_way_to_prompts(tiny_model: LlamaModel, num_cells: int) -> None:
    small = EngineConfig(
        num_lanes=4, num_cells=num_cells, num_threads=1, max_cached_cells=num_cells, min_cached_tokens=16
    )
    with SteppedEngine(tiny_model, small) as engine:
        for index in range(12):
            token_ids = tuple(range(100 * index, 100 * index + 90))
            engine.submit(f"r{index}", token_ids, max_tokens=5, ignore_eos=True)
            engine.run()
            engine.check()
        assert engine.core.statistics(is_alive=True).num_cells_cached > num_cells - 200
        sink = engine.submit("large", tuple(range(2000, 2000 + num_cells - 20)), max_tokens=10)
        engine.run()
        assert sink.endings
        statistics = engine.core.statistics(is_alive=True)
        assert statistics.total_failed_sequences == statistics.total_preemptions == 0
        assert statistics.cache.total_evictions > 0
        engine.check_all_free()


def test_a_model_that_allows_it_says_so(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        assert engine.runner.can_share_prefixes
        assert not engine.lengths()


def test_a_recurrent_model_shares_nothing_and_answers(
    model_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_tiny_recurrent_model(model_path, tmp_path / "recurrent.gguf")
    sizes = EngineConfig(num_lanes=4, num_cells=1024, num_threads=1)
    recurrent = LlamaModel.load(path, sizes)
    with caplog.at_level("INFO", logger="inference"), SteppedEngine(recurrent, sizes) as engine:
        assert not engine.runner.can_share_prefixes
        sinks = [engine.submit(name, prompt(0)[:100], max_tokens=4, ignore_eos=True) for name in "abc"]
        engine.run()
        assert [num_cached(sink) for sink in sinks] == [0, 0, 0]
        assert sinks[0].token_ids == sinks[1].token_ids == sinks[2].token_ids
        assert engine.core.statistics(is_alive=True).num_cells_cached == 0
        engine.check_all_free()
    recurrent.close()
    assert caplog.text.count("cannot be shared in part") == 1
