"""Prefixes that leave the cells and come back, under anything that can happen to the engine.

All that is checked for shared prefixes alone (test_prefix_cache.py) holds here, too: above all, the
scripted runner knows the token and the namespace behind every cell, restored ones included.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from tests.properties.test_prefix_cache import PrefixCacheMachine

# A piece of the scripted runner takes some 200 bytes.
FEW_BYTES, MANY_BYTES = 3_000, 1_000_000


class ColdPrefixMachine(PrefixCacheMachine):
    # A restore that fails half-way leaves what it has brought so far.
    fewest_cached = 1

    @initialize(
        num_lanes=st.integers(1, 6),
        max_entries=st.integers(0, 6),
        max_cells=st.sampled_from([16, 64, 128, 256]),
        budget=st.sampled_from([32, 64, 256]),
        host_cache_bytes=st.sampled_from([FEW_BYTES, MANY_BYTES]),
    )
    def start(  # type: ignore[override]
        self, num_lanes: int, max_entries: int, max_cells: int, budget: int, host_cache_bytes: int
    ) -> None:
        self.host_cache_bytes = host_cache_bytes
        super().start(num_lanes, max_entries, max_cells, budget, kind="on")
        memory = self.engine.core._memory
        self.tier = memory._cold._tier if self.can_share_prefixes else memory._checkpoints._tier

    @rule(trouble=st.sampled_from([False, OSError("no state")]), num_before=st.integers(0, 3))
    def a_state_copy_goes_wrong(self, trouble: bool | Exception, num_before: int) -> None:
        self.engine.runner.state_troubles += [True] * num_before + [trouble]

    @rule(index=st.integers(0, 50))
    def a_piece_is_spoilt(self, index: int) -> None:
        pieces = self.tier.pieces()
        if pieces:
            data = pieces[index % len(pieces)].data
            data[len(data) // 2] ^= 1

    @rule(index=st.integers(0, 50))
    def a_piece_is_old(self, index: int) -> None:
        pieces = self.tier.pieces()
        if pieces:
            piece = pieces[index % len(pieces)]
            self.tier.drop(piece.key)
            self.tier.put_piece(replace(piece, kept_until_ts=1.0))

    @rule()
    def everything_has_to_go(self) -> None:
        while self.engine.core._memory.evict_one():
            pass

    @invariant()
    def what_is_restored_is_counted(self) -> None:
        statistics = self.engine.core.statistics(is_alive=True).cold
        assert statistics.num_bytes <= statistics.max_bytes == self.host_cache_bytes
        loaded = sum(end - begin for _, begin, end in self.engine.runner.loaded)
        assert statistics.total_restored_tokens <= loaded


class CheckpointMachine(ColdPrefixMachine):
    """A memory that cannot be cut: nothing is shared, and states go and come as a whole."""

    can_share_prefixes = False


TestCheckpointMachine = CheckpointMachine.TestCase
TestCheckpointMachine.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestColdPrefixMachine = ColdPrefixMachine.TestCase
TestColdPrefixMachine.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
