"""Counts the bytes of request bodies, so that none outgrows the limit and all together fit in memory."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class BodyVerdict(enum.Enum):
    """What to do after some more bytes of a body."""

    FITS = "fits"
    TOO_LARGE = "too large"
    """This body alone is over the limit: 413."""
    NO_ROOM = "no room"
    """All bodies together are over what may wait in memory: 503."""


@dataclass(frozen=True, slots=True)
class BodyStatistics:
    num_bodies: int
    buffered_bytes: int
    max_buffered_bytes: int


class BodyMemory:
    """Shared by all connections that keep whole bodies in memory."""

    def __init__(self, *, max_body_bytes: int, max_buffered_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        # One body of the greatest size must always find room.
        self._max_buffered_bytes = max(max_buffered_bytes, max_body_bytes)
        self._open: set[BodyMeter] = set()
        self._buffered_bytes = 0

    def open(self) -> BodyMeter:
        """A meter for one body; its `release` gives back what it counted."""
        meter = BodyMeter(self)
        self._open.add(meter)
        return meter

    def statistics(self) -> BodyStatistics:
        return BodyStatistics(len(self._open), self._buffered_bytes, self._max_buffered_bytes)

    def check_integrity(self) -> None:
        """Raises AssertionError when the sum differs from its parts. For tests."""
        counted = sum(meter.num_bytes for meter in self._open)
        if counted != self._buffered_bytes or counted > self._max_buffered_bytes:
            raise AssertionError(f"{self!r}: the open bodies have {counted} bytes")

    def __repr__(self) -> str:
        return f"<BodyMemory {len(self._open)} bodies, {self._buffered_bytes} bytes>"

    def _count(self, meter: BodyMeter, num_bytes: int) -> BodyVerdict:
        if meter.num_bytes + num_bytes > self._max_body_bytes:
            return BodyVerdict.TOO_LARGE
        if self._buffered_bytes + num_bytes > self._max_buffered_bytes:
            return BodyVerdict.NO_ROOM
        meter.num_bytes += num_bytes
        self._buffered_bytes += num_bytes
        return BodyVerdict.FITS

    def _close(self, meter: BodyMeter) -> None:
        if meter in self._open:
            self._open.remove(meter)
            self._buffered_bytes -= meter.num_bytes


class BodyMeter:
    """The count of one body. Made by `BodyMemory.open`."""

    __slots__ = ("_memory", "num_bytes")

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self.num_bytes = 0

    def add(self, num_bytes: int) -> BodyVerdict:
        """Count `num_bytes` more, unless they do not fit; then nothing is counted."""
        return self._memory._count(self, num_bytes)

    def release(self) -> None:
        """The body has left memory. Safe to call twice."""
        self._memory._close(self)
