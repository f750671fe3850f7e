from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.engine.memory_plan import HOST, DeviceMemory
from inference.engine.stats import EngineStatistics
from inference.engine.watchdog import Watchdog
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
        watchdog=Watchdog(0.0),
        clock=FakeClock(),
        maps_weights=maps_weights,
    )
    assert loaded.claimed_bytes == claimed_bytes
    assert loaded.memory_bytes == 1522
