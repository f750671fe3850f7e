"""Embeddings by llama.cpp: the same however texts are put together, and never an end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from gguf import PoolingType

from inference.domain.clock import SystemClock
from inference.domain.embeddings import EmbeddingRequest
from inference.domain.errors import ServiceUnavailable
from inference.engine.config import EngineConfig
from inference.engine.embedding_client import EmbeddingClient
from inference.engine.llama import LlamaEmbedder, LlamaModel
from inference.engine.load_error import ModelLoadError
from tests.model.tiny_encoder import CONTEXT, write_tiny_encoder
from tests.model.tiny_model import write_tiny_model
from tests.model.tiny_ranker import write_tiny_causal_ranker
from tests.model.tiny_recurrent_model import write_tiny_recurrent_model

CONFIG = EngineConfig(num_threads=1, num_cells=2048)
TEXTS = ["hello world", "rain and the sun", "sea", "the stone and the sea and the rain", "hello"]

Write = Callable[[Path, Path], Path]
MODELS: dict[str, Write] = {
    "encoder, mean": lambda source, target: write_tiny_encoder(target, pooling=PoolingType.MEAN),
    "encoder, first": lambda source, target: write_tiny_encoder(target, pooling=PoolingType.CLS),
    "causal, rank": write_tiny_causal_ranker,
    "encoder, rank": lambda source, target: write_tiny_encoder(target, pooling=PoolingType.RANK),
    "causal, mean": write_tiny_model,
    "causal, last": lambda source, target: write_tiny_model(source, target, pooling=PoolingType.LAST),
    "recurrent, mean": write_tiny_recurrent_model,
}


@pytest.fixture(scope="module", params=MODELS)
def embedding_model(
    request: pytest.FixtureRequest, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaModel]:
    path = MODELS[request.param](model_path, tmp_path_factory.mktemp("embedding") / f"{request.param}.gguf")
    model = LlamaModel.load(path, CONFIG)
    yield model
    model.close()


@pytest.fixture
def embedder(embedding_model: LlamaModel) -> Iterator[LlamaEmbedder]:
    made = LlamaEmbedder(embedding_model, CONFIG)
    yield made
    made.close()


class Unmetered:
    def started(self, at_ts: float) -> None:
        """Nobody counts."""

    def ended(self, num_tokens: int) -> None:
        """Nobody counts."""


def _ids(model: LlamaModel, text: str) -> tuple[int, ...]:
    return tuple(model.tokenizer.tokenize(text, add_special=True, parse_special=False))


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Within what sums in another order may differ."""
    return bool(np.allclose(one, other, rtol=2e-2, atol=2e-3))


def test_texts_are_the_same_alone_and_together(embedder: LlamaEmbedder, embedding_model: LlamaModel) -> None:
    texts = [_ids(embedding_model, text) for text in TEXTS]
    together = embedder.compute(texts)
    alone = np.concatenate([embedder.compute([text]) for text in texts])
    assert together.shape == alone.shape and together.dtype == np.float32
    assert _alike(together, alone)
    # Different texts are different, so that being alike says something.
    assert not _alike(together[0], together[1])


def test_nothing_of_a_batch_is_left_for_the_next(
    embedder: LlamaEmbedder, embedding_model: LlamaModel
) -> None:
    text = _ids(embedding_model, TEXTS[0])
    first = embedder.compute([text])
    for _ in range(3):
        embedder.compute([_ids(embedding_model, other) for other in reversed(TEXTS)])
    assert _alike(embedder.compute([text]), first)


def test_a_text_in_parts_is_the_same_as_whole(embedder: LlamaEmbedder, embedding_model: LlamaModel) -> None:
    text = _ids(embedding_model, " ".join(TEXTS * 8))[:CONTEXT]
    if not embedder.can_part:
        with pytest.raises(ValueError, match="at once"):
            embedder.compute_part(text, begin=0, is_last=True)
        return
    whole = embedder.compute([text])
    cuts = [0, 7, 50, len(text)]
    for _ in range(2):
        for begin, end in pairwise(cuts):
            row = embedder.compute_part(text[begin:end], begin=begin, is_last=end == len(text))
            assert (row is None) == (end != len(text))
            # Others are computed between the parts of a long one.
            embedder.compute([_ids(embedding_model, other) for other in TEXTS])
        assert row is not None and _alike(row, whole)


def test_a_long_text_may_be_given_up_on_the_way(embedder: LlamaEmbedder, embedding_model: LlamaModel) -> None:
    if not embedder.can_part:
        pytest.skip("it has no parts")
    text = _ids(embedding_model, " ".join(TEXTS * 8))[:CONTEXT]
    whole = embedder.compute([text])
    embedder.compute_part(text[:30], begin=0, is_last=False)
    assert embedder.compute_part(text[:50], begin=0, is_last=False) is None
    row = embedder.compute_part(text[50:], begin=50, is_last=True)
    assert row is not None and _alike(row, whole)


def test_as_many_texts_as_there_are_sequences_fit(
    embedder: LlamaEmbedder, embedding_model: LlamaModel
) -> None:
    text = _ids(embedding_model, "sea")[:1]
    texts = [text] * embedder.max_batch_texts
    assert embedder.compute(texts).shape[0] == len(texts)
    with pytest.raises(ValueError, match="texts"):
        embedder.compute([*texts, text])


def test_what_would_end_the_process_is_refused(embedder: LlamaEmbedder, embedding_model: LlamaModel) -> None:
    text = _ids(embedding_model, "sea")
    for texts in ([], [()], [text, ()]):
        with pytest.raises(ValueError, match="text"):
            embedder.compute(texts)
    with pytest.raises(ValueError, match="tokens"):
        embedder.compute([text[:1] * (embedder.max_batch_tokens + 1)])
    # A token that does not exist is llama.cpp's to refuse, and harms nobody else.
    with pytest.raises(RuntimeError):
        embedder.compute([(embedding_model.tokenizer.num_tokens,)])
    assert embedder.compute([text]).shape[0] == 1


def test_an_interrupted_batch_fails_and_so_does_each_later_one(
    embedder: LlamaEmbedder, embedding_model: LlamaModel
) -> None:
    embedder.interrupt()
    for _ in range(2):
        with pytest.raises(InterruptedError):
            embedder.compute([_ids(embedding_model, "sea")])


def test_the_description_says_what_the_context_can_do(
    embedder: LlamaEmbedder, embedding_model: LlamaModel
) -> None:
    described = embedding_model.embedding_sizes(CONFIG).description
    rows = embedder.compute([_ids(embedding_model, "sea")])
    assert rows.shape[1] == (1 if described.can_rank else described.width)
    if not embedder.can_part:
        longest = (5,) * described.max_tokens
        assert embedder.compute([longest]).shape[0] == 1


def test_a_model_outlives_its_context(tmp_path: Path) -> None:
    model = LlamaModel.load(write_tiny_encoder(tmp_path / "model.gguf"), CONFIG)
    embedder = LlamaEmbedder(model, CONFIG)
    embedder.close()
    embedder.close()
    model.close()
    assert model.is_closed


def test_a_model_that_names_its_pooling_generates_nothing(embedding_model: LlamaModel) -> None:
    generates = embedding_model.path.stem in ("causal, mean", "recurrent, mean")
    assert embedding_model.description("any").can_generate is generates


async def test_a_model_that_is_freed_ends_its_embeddings_first(tmp_path: Path) -> None:
    model = LlamaModel.load(write_tiny_encoder(tmp_path / "model.gguf"), CONFIG)
    client = EmbeddingClient(
        lambda: LlamaEmbedder(model, CONFIG), model.embedding_sizes(CONFIG).description, clock=SystemClock()
    )
    model.before_close(client.begin_stop)
    request = EmbeddingRequest("r", (_ids(model, "sea"),) * 3)
    assert (await client.embed(request, Unmetered())).shape[0] == 3
    await asyncio.wait_for(asyncio.to_thread(model.close), 30)
    assert model.is_closed and not client.is_loaded
    with pytest.raises(ServiceUnavailable):
        await client.embed(request, Unmetered())


def test_damaged_sizes_are_an_error_of_loading(tmp_path: Path) -> None:
    path = write_tiny_encoder(tmp_path / "model.gguf")
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(ModelLoadError):
        LlamaModel.load(path, CONFIG)
