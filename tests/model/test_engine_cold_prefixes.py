"""States that leave real cells and come back: the same cells, and so the same answers."""

from __future__ import annotations

import numpy as np
import pytest

from inference.domain.events import Started
from inference.engine.config import EngineConfig
from inference.engine.hardware import FlashAttention, HardwareConfig, KvType
from inference.engine.llama import LlamaModel
from inference.engine.llama.states import piece_tokens
from tests.model.stepped_engine import SteppedEngine
from tests.model.test_engine_batching import F32_NOISE, distance
from tests.model.watched_engine import WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

PROMPT = tuple(1000 + (index * 37) % 5000 for index in range(500))


def config(*, host_cache_bytes: int = 1 << 30, num_cells: int = 2048, **settings: object) -> EngineConfig:
    return EngineConfig(
        num_lanes=4,
        num_cells=num_cells,
        num_threads=1,
        max_cached_cells=num_cells,
        host_cache_bytes=host_cache_bytes,
        **settings,  # type: ignore[arg-type]
    )


def num_cached(sink: RecordingSink) -> int:
    started = sink.events[0]
    assert isinstance(started, Started)
    return started.num_cached_tokens


def empty_the_cells(engine: SteppedEngine) -> None:
    while engine.core._memory.evict_one():
        pass
    assert not engine.lengths()


HARDWARE = {
    "as by default": HardwareConfig(),
    "without flash attention": HardwareConfig(flash_attention=FlashAttention.OFF),
    "in 32 bits": HardwareConfig(
        key_type=KvType.F32, value_type=KvType.F32, flash_attention=FlashAttention.ON
    ),
}


@pytest.mark.parametrize("hardware", HARDWARE.values(), ids=HARDWARE.keys())
def test_what_comes_back_is_what_was_computed(tiny_model: LlamaModel, hardware: HardwareConfig) -> None:
    with WatchedEngine(tiny_model, config(hardware=hardware)) as engine:
        first = engine.submit("first", PROMPT, max_tokens=6, ignore_eos=True)
        engine.run()
        resident = engine.submit("resident", (*PROMPT, 5), max_tokens=6)
        engine.run()
        empty_the_cells(engine)
        # Cells in another place, in another order.
        engine.submit("other", tuple(reversed(PROMPT)), max_tokens=6, ignore_eos=True, namespace="other")
        engine.run()
        restored = engine.submit("restored", (*PROMPT, 5), max_tokens=6)
        engine.run()
        assert (num_cached(first), num_cached(resident), num_cached(restored)) == (0, 500, 448)
        assert restored.token_ids == resident.token_ids
        for one, other in zip(engine.logits["resident"], engine.logits["restored"], strict=True):
            assert distance(one, other) < F32_NOISE
        statistics = engine.core.statistics(is_alive=True).cold
        assert (statistics.total_restores, statistics.total_failures) == (1, 0)
        engine.check_all_free()


def test_cells_in_eight_bits_come_back(model: LlamaModel) -> None:
    eight_bits = HardwareConfig(
        key_type=KvType.Q8_0, value_type=KvType.Q8_0, flash_attention=FlashAttention.ON
    )
    with WatchedEngine(model, config(hardware=eight_bits)) as engine:
        for name in ("first", "again"):
            sink = engine.submit(name, PROMPT[:65], max_tokens=2)
            engine.run()
            empty_the_cells(engine)
        assert num_cached(sink) == 64
        one, other = engine.logits["first"][0], engine.logits["again"][0]
        assert distance(one, other) < F32_NOISE + 1  # Q8_0 weights: test_engine_batching.py


def test_a_restored_prefix_ends_where_the_prompt_does(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        first = engine.submit("first", PROMPT[:256], max_tokens=4, ignore_eos=True)
        engine.run()
        empty_the_cells(engine)
        again = engine.submit("again", PROMPT[:256], max_tokens=4, ignore_eos=True)
        engine.run()
        assert num_cached(again) == 255
        assert again.token_ids == first.token_ids
        engine.check_all_free()


def test_restoring_goes_on_from_cells_that_are_there(tiny_model: LlamaModel) -> None:
    with WatchedEngine(tiny_model, config()) as engine:
        engine.submit("first", (*PROMPT, 5), max_tokens=6)
        engine.run()
        empty_the_cells(engine)
        engine.submit("short", PROMPT[:100], max_tokens=2, ignore_eos=True)
        engine.run()
        again = engine.submit("again", (*PROMPT, 5), max_tokens=6)
        engine.run()
        assert num_cached(again) == 448
        assert distance(engine.logits["first"][0], engine.logits["again"][0]) < F32_NOISE
        engine.check_all_free()


def test_preempted_answers_go_on_from_their_states(tiny_model: LlamaModel) -> None:
    def answers(host_cache_bytes: int) -> tuple[list[list[int]], int, int]:
        small = config(
            num_cells=512, host_cache_bytes=host_cache_bytes, max_cached_entries=0, min_cached_tokens=16
        )
        with SteppedEngine(tiny_model, small) as engine:
            sinks = [
                engine.submit(f"r{index}", PROMPT[index : index + 120], max_tokens=100, ignore_eos=True)
                for index in range(4)
            ]
            engine.run()
            statistics = engine.core.statistics(is_alive=True)
            engine.check_all_free()
            assert statistics.total_preemptions > 0
            return (
                [sink.token_ids for sink in sinks],
                statistics.total_prefill_tokens,
                statistics.cold.total_restored_tokens,
            )

    texts, num_computed, num_restored = answers(1 << 28)
    plain_texts, num_computed_without, none = answers(0)
    assert [len(text) for text in texts] == [len(text) for text in plain_texts] == [100] * 4
    assert num_restored > none == 0
    assert num_computed < num_computed_without


def test_damaged_states_do_not_reach_llama_cpp(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        first = engine.submit("first", PROMPT, max_tokens=4, ignore_eos=True)
        engine.run()
        empty_the_cells(engine)
        random = np.random.default_rng(1)
        for piece in engine.core._memory._cold._tier.pieces():
            piece.data[:] = random.integers(0, 256, len(piece.data))
        again = engine.submit("again", PROMPT, max_tokens=4, ignore_eos=True)
        engine.run()
        assert num_cached(again) == 0
        assert again.token_ids == first.token_ids
        engine.check_all_free()


def test_states_that_do_not_fit_are_refused_and_leave_nothing(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config()) as engine:
        engine.submit("first", PROMPT, max_tokens=4, ignore_eos=True)
        engine.run()
        runner = engine.runner
        (entry,) = engine.lengths()
        piece = runner.save_state(entry, 64, 128)
        assert piece is not None
        assert runner.save_state(entry, 480, 544) is None, "it has not so many"
        other = 5
        assert not runner.load_state(other, 0, 64, piece[:1000].copy()), "cut off"
        assert not runner.load_state(other, 64, 128, piece), "nothing to put it behind"
        assert not runner.load_state(entry, 64, 128, piece), "something is there"
        assert not runner.load_state(other, 0, 192, piece), "too little in it"
        assert engine.lengths() == {entry: 503}


def test_no_cells_left_is_a_failure_and_nothing_else(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, config(num_cells=512)) as engine:
        engine.submit("first", PROMPT, max_tokens=4, ignore_eos=True)
        engine.run()
        runner = engine.runner
        (entry,) = engine.lengths()
        piece = runner.save_state(entry, 0, 64)
        assert piece is not None
        assert not runner.load_state(5, 0, 64, piece)
        assert engine.lengths() == {entry: 503}


@pytest.mark.parametrize(
    ("window", "expected"),
    [(0, 64), (64, 64), (4096, 64), (2047, 64), (63, 32), (32, 32), (17, 16), (15, 0), (1, 0)],
)
def test_a_piece_lies_within_the_window_of_attention(window: int, expected: int) -> None:
    assert piece_tokens(window) == expected
