"""Kinds of models by what they remember of a text, and answers computed alone to compare others with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from inference.domain.events import Started
from inference.engine.config import EngineConfig
from inference.engine.hardware import HardwareConfig
from inference.engine.llama import LlamaModel
from tests.model.test_engine_batching import distance
from tests.model.tiny_model import write_tiny_model
from tests.model.tiny_recurrent_model import write_tiny_hybrid_model, write_tiny_recurrent_model
from tests.model.tiny_window_model import WINDOW, write_tiny_window_model
from tests.model.watched_engine import Row, WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

TokenIds = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """`can_share`: texts share the cells of equal beginnings. `has_cells`: longer texts take more of them.
    `noise`: how far logits move with the batches that they are computed in; see F32_NOISE."""

    name: str
    write: Callable[[Path, Path], Path]
    can_share: bool
    has_cells: bool = True
    has_full_window: bool = True
    noise: float = 0.01

    def can_cut(self, num_tokens: int, num_kept: int) -> bool:
        """Whether of so many tokens so few can be kept, where nobody else is there. Layers that keep a
        window only have 256 cells for one sequence (llama-kv-cache-iswa.cpp), and batches take the oldest."""
        if self.has_full_window:
            return self.can_share
        return num_kept - WINDOW >= num_tokens - 256

    def config(self, **sizes: int | bool) -> EngineConfig:
        """One thread, and no pacing: prompts are cut in the same places however slow the machine is. With
        few entries a memory that keeps windows only is so small that long texts lose their beginnings."""
        config = EngineConfig(
            num_lanes=5,
            num_cells=2048,
            num_threads=1,
            target_step_s=1e6,
            max_cached_entries=2,
            max_ubatch_tokens=64,
            host_cache_bytes=64 << 20,
        )
        hardware = HardwareConfig(has_full_window=self.has_full_window)
        return replace(config, hardware=hardware, **sizes)  # type: ignore[arg-type]


KINDS = {
    kind.name: kind
    for kind in (
        Kind("plain", write_tiny_model, can_share=True),
        Kind("recurrent", write_tiny_recurrent_model, can_share=False, has_cells=False),
        Kind("hybrid", write_tiny_hybrid_model, can_share=False),
        Kind("window", write_tiny_window_model, can_share=True, noise=0.03),
        Kind("window only", write_tiny_window_model, can_share=False, has_full_window=False, noise=0.03),
    )
}


@dataclass
class Answer:
    """What was said, and the logits behind each token."""

    token_ids: list[int]
    logits: list[Row]


@dataclass
class KindOfModel:
    """A loaded model of a kind, and what it answers when it has everything for itself."""

    kind: Kind
    model: LlamaModel
    _alone: dict[tuple[TokenIds, int], Answer] = field(default_factory=dict)

    def engine(self, **sizes: int | bool) -> WatchedEngine:
        return WatchedEngine(self.model, self.kind.config(**sizes))

    def alone(self, prompt: TokenIds, max_tokens: int) -> Answer:
        """Computed in an engine that has done nothing else, in one batch, by one lane, with no cache."""
        if (prompt, max_tokens) not in self._alone:
            with self.engine(num_lanes=1, has_prefix_cache=False) as engine:
                sink = engine.submit("alone", prompt, max_tokens=max_tokens, ignore_eos=True)
                engine.run()
            self._alone[prompt, max_tokens] = Answer(sink.token_ids, engine.logits["alone"])
        return self._alone[prompt, max_tokens]

    def check(self, engine: WatchedEngine, asked: Mapping[str, tuple[TokenIds, RecordingSink, int]]) -> None:
        """What `engine` answered to each is what would have been answered to it alone: the same tokens up
        to a near-tie, from which on texts go their own ways, and logits as near as numbers allow."""
        num_compared = num_tokens = 0
        for name, (prompt, sink, max_tokens) in asked.items():
            expected = self.alone(prompt, max_tokens)
            assert len(sink.token_ids) == max_tokens, (name, sink.endings)
            pairs = zip(expected.token_ids, sink.token_ids, strict=True)
            for index, (one, other) in enumerate(pairs):
                lonely, found = expected.logits[index], engine.logits[name][index]
                # Logits of tokens that may not be drawn are no numbers.
                may_be_drawn = np.isfinite(lonely)
                moved = distance(lonely[may_be_drawn], found[may_be_drawn])
                assert moved < self.kind.noise, (name, index, moved)
                num_compared += 1
                if one != other:
                    assert lonely[one] - lonely[other] < self.kind.noise, (name, index)
                    break
            num_tokens += max_tokens
        # Near-ties are rare, or something else is compared than is meant.
        assert num_compared > 0.6 * num_tokens

    def check_tokens(self, prompt: TokenIds, sink: RecordingSink, max_tokens: int) -> None:
        """As `check`, where nobody watched the logits: the same tokens up to a near-tie."""
        expected = self.alone(prompt, max_tokens)
        assert len(sink.token_ids) == max_tokens
        pairs = list(zip(expected.token_ids, sink.token_ids, strict=True))
        parted = next((index for index, (one, other) in enumerate(pairs) if one != other), None)
        if parted is not None:
            one, other = pairs[parted]
            lonely = expected.logits[parted]
            assert lonely[one] - lonely[other] < self.kind.noise, parted


def some_prompt(seed: int, num_tokens: int) -> TokenIds:
    """Tokens in no order, none of them one that ends an answer."""
    random = np.random.default_rng([seed, num_tokens])
    return tuple(random.integers(100, 40_000, num_tokens).tolist())


def num_cached(sink: RecordingSink) -> int:
    started = sink.events[0]
    assert isinstance(started, Started)
    return started.num_cached_tokens


@contextmanager
def loaded_kind(name: str, source: Path, folder: Path) -> Iterator[KindOfModel]:
    """A model of this kind, written into `folder` with the tokenizer of `source`, until the block ends."""
    kind = KINDS[name]
    model = LlamaModel.load(kind.write(source, folder / "tiny.gguf"), kind.config())
    yield KindOfModel(kind, model)
    model.close()
