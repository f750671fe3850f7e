"""Stand-ins at admission's seams: an empty cache, and nobody who records."""

from __future__ import annotations

from collections.abc import Sequence

from inference.domain.admission_events import AdmissionEvent
from inference.domain.cache_affinity import PrefixCacheStatistics


class NoCache:
    """A CacheAffinity where nothing was computed before."""

    statistics = PrefixCacheStatistics()

    def matched_tokens(self, *, namespace: str, token_ids: Sequence[int]) -> int:
        return 0


def tell_nobody(event: AdmissionEvent) -> None:
    """A recorder's `record_event` where the test looks at nothing."""
