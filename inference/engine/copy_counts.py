"""What was copied between a model's memory and the host's, and how long that took."""

from __future__ import annotations

from inference.domain.cold_prefixes import ColdPrefixStatistics, DiskTierStatistics
from inference.engine.host_tier import HostTier


class CopyCounts:
    """Only grows. Belongs to the engine thread; `statistics` may be asked on any."""

    __slots__ = (
        "_num_failures",
        "_num_restored_tokens",
        "_num_saved_tokens",
        "_restore_s",
        "_save_s",
        "num_restores",
    )

    def __init__(self) -> None:
        self.num_restores = 0
        """Sequences that began with something that was kept."""
        self._num_saved_tokens = 0
        self._save_s = 0.0
        self._num_restored_tokens = 0
        self._restore_s = 0.0
        self._num_failures = 0

    def saved(self, num_tokens: int, elapsed_s: float) -> None:
        """The state of so many tokens is kept now."""
        self._num_saved_tokens += num_tokens
        self._save_s += elapsed_s

    def restored(self, num_tokens: int, elapsed_s: float) -> None:
        """So many tokens need not be computed."""
        self._num_restored_tokens += num_tokens
        self._restore_s += elapsed_s

    def failed(self) -> None:
        """A state could not be copied, in whichever direction."""
        self._num_failures += 1

    def statistics(self, tier: HostTier, disk: DiskTierStatistics | None = None) -> ColdPrefixStatistics:
        """With what `tier` and disk say of themselves."""
        return ColdPrefixStatistics(
            num_pieces=len(tier),
            num_bytes=tier.num_bytes,
            max_bytes=tier.max_bytes,
            total_saved_tokens=self._num_saved_tokens,
            total_save_s=self._save_s,
            total_restores=self.num_restores,
            total_restored_tokens=self._num_restored_tokens,
            total_restore_s=self._restore_s,
            total_failures=self._num_failures + tier.total_damaged,
            total_evictions=tier.total_evictions,
            disk=disk or DiskTierStatistics(),
        )
