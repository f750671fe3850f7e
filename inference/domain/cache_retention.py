"""How long what was computed for a prompt may be kept: OpenAI's `prompt_cache_retention`."""

from __future__ import annotations

from enum import Enum

DAY_S = 24 * 3600.0


class CacheRetention(Enum):
    """What a request says of its own prompt and answer.

    They are kept as long as there is room in either case; what differs is where, and what goes first.
    """

    UNSAID = ""
    """Anywhere that an administrator allows."""
    IN_MEMORY = "in_memory"
    """Never on a disk."""
    DAY = "24h"
    """Before what others said nothing of, and for a day at most."""

    @property
    def may_go_to_disk(self) -> bool:
        return self is not CacheRetention.IN_MEMORY

    def or_longer(self, other: CacheRetention) -> CacheRetention:
        """What holds for something that two requests have in common."""
        return max(self, other, key=_RANKS.index)


_RANKS = (CacheRetention.IN_MEMORY, CacheRetention.UNSAID, CacheRetention.DAY)
