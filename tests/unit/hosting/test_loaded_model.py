from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.domain.embeddings import EmbeddingStatistics
from inference.engine.memory_plan import HOST, DeviceMemory
from inference.engine.stats import EngineStatistics
from inference.hosting.loaded_model import LoadedModel
from tests.clocks import FakeClock
from tests.scripted_engine import ScriptedEngine


class ToldEngine(ScriptedEngine):
    """With weights on two devices and a host cache that is half full."""

    def statistics(self) -> EngineStatistics:
        memory = (DeviceMemory(HOST, 1000, 10, 1, None), DeviceMemory("CUDA0", 500, 10, 1, None))
        cold = ColdPrefixStatistics(num_bytes=30, max_bytes=60)
        return replace(super().statistics(), memory=memory, cold=cold)


@pytest.mark.parametrize(("maps_weights", "claimed_bytes"), [(True, 1030), (False, 30)])
def test_it_claims_what_is_mapped_and_what_its_host_cache_may_still_take(
    maps_weights: bool, claimed_bytes: int
) -> None:
    loaded = LoadedModel(
        cast(Any, SimpleNamespace()),
        ToldEngine(),
        cast(Any, SimpleNamespace()),
        watchdog_s=0.0,
        clock=FakeClock(),
        maps_weights=maps_weights,
    )
    assert loaded.claimed_bytes == claimed_bytes
    assert loaded.memory_bytes == 1522


class SteppingEngine(ScriptedEngine):
    """Makes progress whenever somebody looks, until it is given up."""

    num_steps = 0

    def statistics(self) -> EngineStatistics:
        self.num_steps += 1
        return replace(super().statistics(), total_steps=self.num_steps, total_turns=self.num_steps)


def test_embeddings_that_hang_are_noticed_beside_an_engine_that_steps_on() -> None:
    clock, engine = FakeClock(), SteppingEngine()
    now = EmbeddingStatistics(num_jobs=1, num_tokens=9, total_begun=1, num_computing_tokens=9)
    embeddings = SimpleNamespace(statistics=lambda: now)
    loaded = LoadedModel(
        cast(Any, SimpleNamespace(embeddings=embeddings)),
        engine,
        cast(Any, SimpleNamespace()),
        watchdog_s=5.0,
        clock=clock,
        maps_weights=False,
    )
    for second in range(20):
        now = replace(now, total_begun=second)
        assert loaded.watch() is None
        clock.advance(1.0)
    for _ in range(5):
        assert engine.is_alive
        stall = loaded.watch()
        clock.advance(1.0)
    assert stall is not None and "embeddings" in str(stall)
    assert not engine.is_alive
