from __future__ import annotations

import pytest

from inference.engine.config import EngineConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_lanes", 0),
        ("num_lanes", 257),
        ("num_cells", 255),
        ("max_batch_tokens", 8),
        ("max_ubatch_tokens", 0),
        ("min_prefill_tokens", 0),
        ("min_prefill_tokens", 257),
        ("target_step_s", 0.0),
        ("num_threads", -1),
        ("resume_headroom_tokens", 0),
        ("max_cached_entries", -1),
        ("max_cached_entries", 257),
        ("min_cached_tokens", 0),
        ("max_cached_cells", -1),
        ("max_cached_cells", 16_385),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_its_field(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must ") as caught:
        EngineConfig(**{field: value})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_batch_holds_a_token_of_every_lane() -> None:
    EngineConfig(num_lanes=64, max_batch_tokens=64)
    with pytest.raises(ValueError, match="max_batch_tokens"):
        EngineConfig(num_lanes=65, max_batch_tokens=64)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({}, 80),
        ({"has_prefix_cache": False}, 16),
        ({"num_lanes": 250}, 256),
        ({"num_lanes": 256}, 256),
        ({"max_cached_entries": 0}, 16),
        ({"num_lanes": 40, "max_batch_tokens": 64}, 64),
    ],
)
def test_there_are_sequences_for_lanes_and_entries_as_far_as_llama_allows(
    sizes: dict[str, int], expected: int
) -> None:
    assert EngineConfig(**sizes).num_sequences == expected  # type: ignore[arg-type]


def test_a_quarter_of_the_cells_may_be_cached_unless_told() -> None:
    assert EngineConfig(num_cells=1000).effective_max_cached_cells == 250
    assert EngineConfig(num_cells=1000, max_cached_cells=10).effective_max_cached_cells == 10


def test_threads_are_chosen_unless_given() -> None:
    assert EngineConfig(num_threads=3).effective_threads == 3
    assert EngineConfig().effective_threads >= 1
