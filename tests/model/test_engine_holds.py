"""A sequence of a real model that stands still and goes on, with and without its cells."""

from __future__ import annotations

import pytest

from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from tests.model.stepped_engine import SteppedEngine

PROMPT = tuple(100 + index * 7 % 4000 for index in range(90))
OTHER = tuple(300 + index * 11 % 4000 for index in range(20))
NUM_TOKENS = 24


def make_config(num_cells: int = 1024) -> EngineConfig:
    return EngineConfig(
        num_threads=1,
        num_lanes=3,
        num_cells=num_cells,
        max_batch_tokens=32,
        max_prefill_tokens_beside_decodes=32,
    )


@pytest.fixture(scope="module")
def expected(tiny_model: LlamaModel) -> list[int]:
    with SteppedEngine(tiny_model, make_config()) as engine:
        sink = engine.submit("alone", PROMPT, max_tokens=NUM_TOKENS, ignore_eos=True)
        engine.run()
        return sink.token_ids


def test_held_in_the_prompt_and_in_the_answer_it_says_the_same(
    tiny_model: LlamaModel, expected: list[int]
) -> None:
    with SteppedEngine(tiny_model, make_config()) as engine:
        held = engine.submit("held", PROMPT, max_tokens=NUM_TOKENS, ignore_eos=True)
        engine.core.step()
        engine.hold("held")
        others = [
            engine.submit(name, OTHER, max_tokens=NUM_TOKENS, ignore_eos=True, namespace=name)
            for name in "ab"
        ]
        for _ in range(4):
            engine.core.step()
            engine.check()
        assert not held.token_ids
        assert engine.lengths()[0] == 32
        engine.resume("held")
        while len(held.token_ids) < 5:
            engine.core.step()
        engine.hold("held")
        engine.run()
        assert [len(other.token_ids) for other in others] == [NUM_TOKENS] * 2
        assert held.token_ids == expected[:5]
        engine.resume("held")
        engine.run()
        assert held.token_ids == expected
        engine.check_all_free()


def test_held_without_room_it_is_computed_again(tiny_model: LlamaModel, expected: list[int]) -> None:
    with SteppedEngine(tiny_model, make_config(num_cells=256)) as engine:
        held = engine.submit("held", PROMPT, max_tokens=NUM_TOKENS, ignore_eos=True)
        while len(held.token_ids) < 5:
            engine.core.step()
        engine.hold("held")
        large = engine.submit("large", tuple(range(500, 700)), max_tokens=8, ignore_eos=True)
        engine.run()
        assert len(large.token_ids) == 8
        statistics = engine.core.statistics(is_alive=True)
        assert (statistics.num_held, statistics.total_preemptions) == (1, 1)
        engine.check()
        engine.resume("held")
        engine.run()
        # Recomputed cells are rounded a little differently, so late tokens may part at near-ties.
        assert held.token_ids[:12] == expected[:12]
        assert len(held.token_ids) == NUM_TOKENS
        engine.check_all_free()
