"""What may be known of the prefixes that are kept outside of a model's KV cells."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DiskTierStatistics:
    """A snapshot; `total_…` only grow. `total_damaged` files were not what this service had written;
    `total_dropped` pieces came faster than the disk could take them."""

    num_files: int = 0
    num_bytes: int = 0
    max_bytes: int = 0
    total_writes: int = 0
    total_reads: int = 0
    total_damaged: int = 0
    total_failures: int = 0
    total_dropped: int = 0


@dataclass(frozen=True, slots=True)
class ColdPrefixStatistics:
    """A snapshot; `total_…` only grow.

    Pieces are parts of KV states in host memory. A restore is a sequence that began with some of them;
    `total_restored_tokens` are the tokens that it did not have to compute. `total_failures` counts what
    could not be copied or was damaged (the prompt was computed instead), `total_evictions` pieces that
    gave way to others. `disk` is all 0 where there is none.
    """

    num_pieces: int = 0
    num_bytes: int = 0
    max_bytes: int = 0
    total_saved_tokens: int = 0
    total_save_s: float = 0.0
    total_restores: int = 0
    total_restored_tokens: int = 0
    total_restore_s: float = 0.0
    total_failures: int = 0
    total_evictions: int = 0
    disk: DiskTierStatistics = field(default_factory=DiskTierStatistics)
