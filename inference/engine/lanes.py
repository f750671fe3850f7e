"""Places in the batch. A sequence holds one from its start to its end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaneStatistics:
    """How many places there are and how many are taken."""

    num_lanes: int
    num_used: int

    @property
    def num_free(self) -> int:
        return self.num_lanes - self.num_used


class Lane:
    """One place, held until `release()`; releasing again does nothing."""

    __slots__ = ("_pool", "index")

    def __init__(self, pool: LanePool, index: int) -> None:
        self.index = index
        self._pool: LanePool | None = pool

    def release(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool._take_back(self.index)

    @property
    def is_held(self) -> bool:
        return self._pool is not None

    def __repr__(self) -> str:
        return f"<Lane {self.index} {'held' if self.is_held else 'released'}>"


class LanePool:
    """Hands out the numbers 0 … num_lanes - 1, the lowest free one first.

    Low numbers keep the cells in use close together, and llama.cpp's cost grows with the highest
    cell in use. Belongs to the engine thread; `statistics` may be read from anywhere.
    """

    def __init__(self, num_lanes: int) -> None:
        if num_lanes < 1:
            raise ValueError(f"a pool needs at least one lane, not {num_lanes}")
        self._num_lanes = num_lanes
        self._free = list(range(num_lanes - 1, -1, -1))
        self._is_used = [False] * num_lanes

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def statistics(self) -> LaneStatistics:
        return LaneStatistics(num_lanes=self._num_lanes, num_used=self._num_lanes - len(self._free))

    def acquire(self) -> Lane | None:
        """The lowest free lane, or None."""
        if not self._free:
            return None
        index = self._free.pop()
        self._is_used[index] = True
        return Lane(self, index)

    def _take_back(self, index: int) -> None:
        self._is_used[index] = False
        self._free.append(index)
        self._free.sort(reverse=True)

    def check_integrity(self, owned: Collection[Lane] | None = None) -> None:
        """Raise AssertionError unless every lane is either free or used, once, and where it is said who has
        some (`owned`), by just these."""
        free = [index for index, is_used in enumerate(self._is_used) if not is_used]
        if sorted(self._free) != free:
            raise AssertionError(f"{self!r}: the free list {self._free} is not {free}")
        if owned is not None:
            held = [lane.index for lane in owned if lane.is_held]
            if len(set(held)) != len(owned) or len(held) != self.statistics.num_used:
                raise AssertionError(f"{len(owned)} sequences hold lanes {held}, {self!r}")

    def __repr__(self) -> str:
        statistics = self.statistics
        return f"<LanePool {statistics.num_used} of {statistics.num_lanes} used>"
