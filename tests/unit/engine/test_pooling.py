"""What of a model's embeddings is known before a context is made."""

from __future__ import annotations

import pytest

from inference.domain.embeddings import PairMarks
from inference.engine.config import EngineConfig
from inference.engine.pooling import EmbeddingSizes, Pooling, read_pooling

CONFIG = EngineConfig(num_cells=4096)


def sizes(metadata: dict[str, str], config: EngineConfig = CONFIG, trained: int = 32_768) -> EmbeddingSizes:
    pooling = read_pooling(metadata)
    return pooling.sizes(config, width=8, trained_context=trained, pair_marks=PairMarks())


@pytest.mark.parametrize(
    ("metadata", "pooling", "generates", "is_causal"),
    [
        ({"general.architecture": "llama"}, Pooling.MEAN, True, True),
        ({"general.architecture": "llama", "llama.pooling_type": "0"}, Pooling.MEAN, True, True),
        ({"general.architecture": "qwen3", "qwen3.pooling_type": "3"}, Pooling.LAST, False, True),
        ({"general.architecture": "qwen3", "qwen3.pooling_type": "4"}, Pooling.RANK, False, True),
        ({"general.architecture": "bert", "bert.pooling_type": "2"}, Pooling.CLS, False, False),
        ({"general.architecture": "bert"}, Pooling.MEAN, False, False),
        ({"general.architecture": "gemma-embedding"}, Pooling.MEAN, False, False),
        ({"general.architecture": "qwen2", "qwen2.attention.causal": "false"}, Pooling.MEAN, False, False),
        ({"general.architecture": "llama", "llama.pooling_type": "77"}, Pooling.MEAN, True, True),
        ({}, Pooling.MEAN, True, True),
    ],
)
def test_what_a_file_says(
    metadata: dict[str, str], pooling: Pooling, generates: bool, is_causal: bool
) -> None:
    found = read_pooling(metadata)
    assert (found.effective, found.can_generate, found.is_causal) == (pooling, generates, is_causal)
    assert found.can_rank is (pooling is Pooling.RANK)


def test_beside_generation_the_second_context_is_small() -> None:
    found = sizes({"general.architecture": "llama"})
    assert found.description.max_tokens == 2048 and found.can_part
    assert found.num_cells == 2048 + found.max_batch_tokens


def test_a_model_of_its_own_takes_what_the_row_gives_it() -> None:
    metadata = {"general.architecture": "qwen3", "qwen3.pooling_type": "3"}
    assert sizes(metadata).description.max_tokens == 4096
    assert sizes(metadata, EngineConfig(num_cells=65_536)).description.max_tokens == 8192
    assert sizes(metadata, trained=512).description.max_tokens == 512


def test_encoders_compute_each_text_at_once() -> None:
    found = sizes({"general.architecture": "bert"}, trained=512)
    assert (found.description.max_tokens, found.max_batch_tokens, found.can_part) == (512, 512, False)
    long = sizes({"general.architecture": "nomic-bert"}, trained=8192)
    assert long.description.max_tokens == long.max_batch_tokens == 2048
    short = sizes({"general.architecture": "bert"}, trained=128)
    assert short.description.max_tokens == 128 < short.max_batch_tokens


def test_an_administrator_may_set_another_limit() -> None:
    config = EngineConfig(num_cells=4096, max_embedding_tokens=4000)
    assert sizes({"general.architecture": "llama"}, config).description.max_tokens == 4000
    assert sizes({"general.architecture": "nomic-bert"}, config, trained=8192).max_batch_tokens == 4000
    with pytest.raises(ValueError, match="max_embedding_tokens"):
        EngineConfig(max_embedding_tokens=-1)
