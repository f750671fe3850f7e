"""What others may ask of the prefix cache, which belongs to the engine thread alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


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


class TokenIds(Protocol):
    """A prompt's token ids as an array of int32 (numpy's, which this layer does not know)."""

    def __len__(self) -> int: ...

    def __array__(self) -> Any: ...


class CacheAffinity(Protocol):
    """How much of each waiting prompt is there already: who orders a queue by it needs no more."""

    def matched_tokens(
        self, *, namespace: str, prompts: Sequence[TokenIds], num_shared: Sequence[int]
    ) -> list[int]:
        """For each prompt, the tokens that would not have to be computed if it started now; 0 where
        there are too few to matter.

        Prompts that begin alike should follow each other: the first `num_shared[i]` tokens of prompt i
        are those of the one before it (0 where that is not known) and are not compared again. Leaves
        the order of eviction as it is. Engine thread only.
        """
        ...

    @property
    def statistics(self) -> PrefixCacheStatistics:
        """From any thread."""
        ...
