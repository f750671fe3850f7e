"""Latencies as counts that can be added up, so that percentiles of a month need no month of rows.

Percentiles of hours cannot be averaged; counts in fixed buckets can be added. The bounds are the
same for ever and everywhere (the aggregation's SQL is given them), eight to a decade: the true value
of a percentile is at most a third above what is told (10^(1/8) = 1.33), and where it lies within the
bucket is interpolated. Standard library only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BUCKETS_PER_DECADE = 8
MIN_BOUND_S = 0.001
NUM_DECADES = 6
"""From a millisecond to a thousand seconds, which is more than a request may take by default."""

BOUNDS_S: tuple[float, ...] = tuple(
    round(MIN_BOUND_S * 10 ** (index / BUCKETS_PER_DECADE), 6)
    for index in range(BUCKETS_PER_DECADE * NUM_DECADES + 1)
)
NUM_BUCKETS = len(BOUNDS_S) + 1
"""Bucket i holds what is at least BOUNDS_S[i - 1] and less than BOUNDS_S[i]; the last has no end. That
is the numbering of Postgres' width_bucket(value, bounds)."""


def bucket_of(seconds: float) -> int:
    """The bucket of one latency, 0 … NUM_BUCKETS - 1."""
    return bisect_right(BOUNDS_S, seconds)


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Counts by bucket; `LatencyHistogram()` is empty, and the neutral element of `+`.

    Raises ValueError for counts that are negative or not as many as there are buckets.
    """

    counts: tuple[int, ...] = (0,) * NUM_BUCKETS

    def __post_init__(self) -> None:
        if len(self.counts) != NUM_BUCKETS:
            raise ValueError(f"{len(self.counts)} counts where there are {NUM_BUCKETS} buckets")
        if min(self.counts) < 0:
            raise ValueError("a bucket cannot hold fewer than no latencies")

    @classmethod
    def of(cls, latencies_s: Iterable[float]) -> LatencyHistogram:
        counts = [0] * NUM_BUCKETS
        for seconds in latencies_s:
            counts[bucket_of(seconds)] += 1
        return cls(tuple(counts))

    @classmethod
    def merged(cls, histograms: Iterable[Sequence[int]]) -> LatencyHistogram:
        """The sum of many, as stored. An empty one is nothing."""
        counts = [0] * NUM_BUCKETS
        for one in histograms:
            if one and len(one) != NUM_BUCKETS:
                raise ValueError(f"{len(one)} counts where there are {NUM_BUCKETS} buckets")
            for index, count in enumerate(one):
                counts[index] += count
        return cls(tuple(counts))

    def __add__(self, other: LatencyHistogram) -> LatencyHistogram:
        return LatencyHistogram(tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    @property
    def num_latencies(self) -> int:
        return sum(self.counts)

    def quantile_s(self, share: float) -> float | None:
        """The latency that `share` (0 … 1) of all do not exceed, in seconds; None where there is none.

        Linear within its bucket. Of the last one, which has no end, its beginning.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"a quantile of {share}")
        total = self.num_latencies
        if total == 0:
            return None
        wanted, seen = share * total, 0
        for index, count in enumerate(self.counts):
            if count and seen + count >= wanted:
                low = BOUNDS_S[index - 1] if index else 0.0
                if index == len(BOUNDS_S):
                    return low
                return low + (BOUNDS_S[index] - low) * max(0.0, wanted - seen) / count
            seen += count
        return BOUNDS_S[-1]
