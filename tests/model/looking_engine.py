"""An engine that is asked about pictures, and pictures for it."""

from __future__ import annotations

import hashlib

import numpy as np

from inference.domain.events import Started
from inference.domain.media import Picture
from inference.domain.media_run import MediaRun
from inference.domain.signals import SignalRequest
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaProjector
from inference.engine.positions import PositionMap
from inference.engine.sequence import DECODING
from tests.model.test_engine_batching import distance as distance_of_all
from tests.model.watched_engine import WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

BEGIN, END = tuple(range(1000, 1070)), tuple(range(2000, 2020))


def config(**sizes: int | bool) -> EngineConfig:
    return EngineConfig(num_lanes=4, num_cells=2048, num_threads=1, **sizes)  # type: ignore[arg-type]


def picture(name: str, *, width: int = 40, height: int = 24) -> Picture:
    digest = hashlib.sha256(name.encode()).digest()
    random = np.random.default_rng(list(digest))
    return Picture(width, height, random.integers(0, 256, (height, width, 3), np.uint8).tobytes(), digest)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Without the tokens that may not be drawn (here those that end an answer)."""
    may_be_drawn = np.isfinite(one)
    return distance_of_all(one[may_be_drawn], other[may_be_drawn])


def num_cached(sink: RecordingSink) -> int:
    started = sink.events[0]
    assert isinstance(started, Started)
    return started.num_cached_tokens


class LookingEngine(WatchedEngine):
    """A WatchedEngine that is asked about pictures."""

    def __init__(self, model: LlamaModel, projector: LlamaProjector, config: EngineConfig) -> None:
        super().__init__(model, config)
        self._projector = projector
        self._has_planes = projector._has_plane

    def look(
        self,
        name: str,
        *pictures: Picture,
        max_tokens: int = 6,
        namespace: str = "",
        behind: tuple[int, ...] = (),
        signals: SignalRequest | None = None,
    ) -> RecordingSink:
        """BEGIN, each picture and a line break, END, and what stands `behind` that."""
        ids, runs = list(BEGIN), []
        for one in pictures:
            rows = iter(self._projector.encode(one))
            for piece in self._projector.lay_out(one):
                if piece.is_embedded:
                    runs.append(MediaRun(len(ids), next(rows), piece.is_causal, piece.grid))
                ids += piece.token_ids
            ids.append(5)
        return self.submit(
            name,
            (*ids, *END, *behind),
            media=tuple(runs),
            max_tokens=max_tokens,
            ignore_eos=True,
            namespace=namespace,
            signals=signals,
        )

    def check(self) -> None:
        """Where pictures take fewer positions than cells, positions are what llama.cpp can tell."""
        sequences = self.core._scheduler.sequences
        if not self._has_planes:
            super().check()
            return
        self.core.check_integrity()
        self.admission.check_integrity()
        lengths = self.core._memory._cache._ledger._lengths
        assert self.lengths().keys() == {one for one, length in lengths.items() if length}
        for one in sequences:
            positions, last = PositionMap(one.request.media), self.lengths().get(one.sequence_id, 0) - 1
            assert last <= positions.position(one.num_computed)
            assert positions.num_tokens(last) <= one.num_computed
            if one.state is DECODING:
                assert last == one.num_computed - one.num_saved_positions - 1
