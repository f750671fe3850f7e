"""What others may ask of the prefix cache, which belongs to the engine thread alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PrefixCacheStatistics:
    """A snapshot. `num_cells` are KV cells that only idle entries hold; `total_…` only grow.

    A hit is a sequence that began with cells of another; `total_hit_tokens` are the tokens that it
    did not have to compute. Evictions are entries given up for room or by a limit.
    """

    num_entries: int = 0
    num_cells: int = 0
    total_hits: int = 0
    total_hit_tokens: int = 0
    total_evictions: int = 0


class CacheAffinity(Protocol):
    """How much of a prompt is there already: who orders a queue by it needs no more."""

    def matched_tokens(self, *, namespace: str, token_ids: Sequence[int]) -> int:
        """Tokens of a prompt that would not have to be computed if it started now; 0 where there are
        too few to matter. Leaves the order of eviction as it is. Engine thread only."""
        ...

    @property
    def statistics(self) -> PrefixCacheStatistics:
        """From any thread."""
        ...
