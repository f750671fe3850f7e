"""KV state in the machine's own memory: what the cells have no room for, and computing would cost more.

cells ──save──▶ host tier ──▶ gone
  ▲                 │
  └────restore──────┘
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from inference.domain.cache_retention import DAY_S, CacheRetention

StateArray = NDArray[np.uint8]
# Those who ask for a day come first with this share of the bytes, so that they cannot take it all.
LASTING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class StatePiece:
    """The state of some tokens behind each other, as llama.cpp wrote it.

    `kept_until_ts` is when a day is over since somebody last asked for one.
    """

    key: bytes
    data: StateArray
    checksum: int
    retention: CacheRetention
    kept_until_ts: float = 0.0


def checksum_of(data: StateArray) -> int:
    """CRC-32: finds what memory or a disk has spoilt. It keeps nobody out who can write there."""
    return zlib.crc32(data.data)


def _nobody_hears(_piece: StatePiece) -> None:
    pass


class HostTier:
    """Pieces by their keys, within `max_bytes`. Belongs to the engine thread.

    Room is made by giving up what was not used for longest: first what nobody asked to keep for a day,
    then the rest; but what is to be kept for a day is treated like everything else beyond half of the
    bytes, and once the day is over. `on_leave` hears of each piece that gave way. `now_ts`: seconds.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        now_ts: Callable[[], float],
        on_leave: Callable[[StatePiece], None] | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.total_evictions = 0
        self.total_damaged = 0
        self._now_ts = now_ts
        self._on_leave = on_leave or _nobody_hears
        # The one whose last use is longest ago first.
        self._plain: dict[bytes, StatePiece] = {}
        self._lasting: dict[bytes, StatePiece] = {}
        self._num_lasting_bytes = 0

    def __len__(self) -> int:
        return len(self._plain) + len(self._lasting)

    def __contains__(self, key: bytes) -> bool:
        return key in self._plain or key in self._lasting

    def pieces(self) -> list[StatePiece]:
        """All of them, those to be kept for a day last."""
        return [*self._plain.values(), *self._lasting.values()]

    def get(self, key: bytes) -> StateArray | None:
        """The state under a key, as it was put there: what has changed since is dropped."""
        piece = self._plain.get(key) or self._lasting.get(key)
        if piece is None:
            return None
        if checksum_of(piece.data) != piece.checksum:
            self.total_damaged += 1
            self.drop(key)
            return None
        return piece.data

    def put(self, key: bytes, data: StateArray, retention: CacheRetention) -> bool:
        """Keep a piece. False where it is larger than everything there may be."""
        return self.put_piece(
            StatePiece(key, data, checksum_of(data), retention, self._kept_until(retention))
        )

    def put_piece(self, piece: StatePiece) -> bool:
        """Keep a piece whose checksum somebody has made, or compared, already."""
        if len(piece.data) > self.max_bytes or piece.key in self:
            return piece.key in self
        self._make_room(len(piece.data))
        self._insert(piece)
        return True

    def use(self, keys: Sequence[bytes], retention: CacheRetention) -> None:
        """Pieces of one chain, in order, were used by somebody who wants them to stay that long.

        The first ones are the last to go: without them, those behind are of no use.
        """
        for key in reversed(keys):
            piece = self._plain.get(key) or self._lasting.get(key)
            if piece is None:
                continue
            self._take(key)
            longer = piece.retention.or_longer(retention)
            until_ts = max(piece.kept_until_ts, self._kept_until(retention))
            if longer is not piece.retention or until_ts != piece.kept_until_ts:
                piece = replace(piece, retention=longer, kept_until_ts=until_ts)
            self._insert(piece)

    def drop(self, key: bytes) -> None:
        """Forget a piece, where it is there; nobody hears of it."""
        if key in self:
            self._take(key)

    def close(self) -> None:
        """Give everything back, and let go of whoever heard of it."""
        for key in [*self._plain, *self._lasting]:
            self._take(key)
        self._on_leave = _nobody_hears

    def _kept_until(self, retention: CacheRetention) -> float:
        return self._now_ts() + DAY_S if retention is CacheRetention.DAY else 0.0

    def _insert(self, piece: StatePiece) -> None:
        self.num_bytes += len(piece.data)
        if piece.retention is CacheRetention.DAY and piece.kept_until_ts > self._now_ts():
            self._lasting[piece.key] = piece
            self._num_lasting_bytes += len(piece.data)
        else:
            self._plain[piece.key] = piece

    def _take(self, key: bytes) -> StatePiece:
        piece = self._plain.pop(key, None)
        if piece is None:
            piece = self._lasting.pop(key)
            self._num_lasting_bytes -= len(piece.data)
        self.num_bytes -= len(piece.data)
        return piece

    def _make_room(self, num_bytes: int) -> None:
        while self.num_bytes + num_bytes > self.max_bytes:
            piece = self._take(self._victim())
            self.total_evictions += 1
            self._on_leave(piece)

    def _victim(self) -> bytes:
        oldest = next(iter(self._lasting.values()), None)
        if oldest is not None:
            is_over = oldest.kept_until_ts <= self._now_ts()
            if is_over or self._num_lasting_bytes > LASTING_SHARE * self.max_bytes or not self._plain:
                return oldest.key
        return next(iter(self._plain))

    def check_integrity(self) -> None:
        """Raise AssertionError unless sizes and limits agree."""
        lasting = sum([len(piece.data) for piece in self._lasting.values()])
        num_bytes = lasting + sum([len(piece.data) for piece in self._plain.values()])
        if num_bytes != self.num_bytes or lasting != self._num_lasting_bytes:
            raise AssertionError(f"{self!r}: {num_bytes} bytes are held, {lasting} of them for a day")
        if num_bytes > self.max_bytes:
            raise AssertionError(f"{self!r}: more than may be")
        if self._plain.keys() & self._lasting.keys():
            raise AssertionError(f"{self!r}: a piece is held twice")

    def __repr__(self) -> str:
        return f"<HostTier {len(self)} pieces, {self.num_bytes} of {self.max_bytes} bytes>"
