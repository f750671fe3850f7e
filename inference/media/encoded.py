"""What pictures became, kept while somebody needs it and as long as there is room.

A picture is thousands of numbers a token, megabytes in all, and a queue full of requests with pictures
would be gigabytes. So what is alive is counted, whoever holds it, and who comes when it is too much is
told to come later.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass

from inference.domain.errors import ServerOverloaded
from inference.domain.media import EmbeddingRows, MediaPiece


class EncodedMedia:
    """What stands for one picture or sound, and the rows of each embedded piece. Compared by identity."""

    __slots__ = ("__weakref__", "num_bytes", "pieces", "rows")

    def __init__(
        self, pieces: tuple[MediaPiece, ...], rows: tuple[EmbeddingRows, ...], num_bytes: int
    ) -> None:
        self.pieces = pieces
        self.rows = rows
        self.num_bytes = num_bytes


@dataclass(frozen=True, slots=True)
class EncodedMediaStatistics:
    """`num_bytes` are alive, of which `num_cached_bytes` may be asked for again; `total_…` only grow."""

    num_bytes: int = 0
    num_cached_bytes: int = 0
    num_cached: int = 0
    total_hits: int = 0
    total_misses: int = 0


class EncodedMediaCache:
    """By digest, the one whose last use is longest ago is given up first. For one event loop; only who
    lets go of something last may be any thread, the engine's mostly.

    At most `max_bytes` are alive, in requests and in here. What is given up here lives on in requests
    that have it, and can still be found until the last of them ends.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._cached: OrderedDict[bytes, EncodedMedia] = OrderedDict()
        self._alive: weakref.WeakValueDictionary[bytes, EncodedMedia] = weakref.WeakValueDictionary()
        self._num_cached_bytes = 0
        self._num_bytes = 0
        # Bytes that were let go of and not taken from the sum yet: no other thread touches that.
        self._let_go: deque[int] = deque()
        self._total_hits = 0
        self._total_misses = 0

    @property
    def statistics(self) -> EncodedMediaStatistics:
        self._settle()
        return EncodedMediaStatistics(
            num_bytes=self._num_bytes,
            num_cached_bytes=self._num_cached_bytes,
            num_cached=len(self._cached),
            total_hits=self._total_hits,
            total_misses=self._total_misses,
        )

    def find(self, digest: bytes) -> EncodedMedia | None:
        """What was made of the file with this digest, if it is still there."""
        found = self._alive.get(digest)
        if found is None:
            self._total_misses += 1
            return None
        self._total_hits += 1
        self._keep(digest, found)
        return found

    def make_room(self, num_bytes: int) -> None:
        """Before so much more is made: give up what nobody uses. Raises ServerOverloaded where that is
        not enough."""
        self._settle()
        while self._cached and self._num_bytes + num_bytes > self._max_bytes:
            self._give_up_oldest()
            self._settle()
        if self._num_bytes and self._num_bytes + num_bytes > self._max_bytes:
            raise ServerOverloaded("Too many pictures and sounds are being answered at the moment.")

    def add(
        self,
        digest: bytes,
        pieces: tuple[MediaPiece, ...],
        rows: tuple[EmbeddingRows, ...],
        num_bytes: int,
    ) -> EncodedMedia:
        """Keep it, and count it until the last one that holds it lets go."""
        made = EncodedMedia(pieces, rows, num_bytes)
        self._num_bytes += num_bytes
        weakref.finalize(made, self._let_go.append, num_bytes).atexit = False
        self._alive[digest] = made
        self._keep(digest, made)
        return made

    def _keep(self, digest: bytes, media: EncodedMedia) -> None:
        if digest not in self._cached:
            self._num_cached_bytes += media.num_bytes
        self._cached[digest] = media
        self._cached.move_to_end(digest)
        while self._num_cached_bytes > self._max_bytes:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        _, media = self._cached.popitem(last=False)
        self._num_cached_bytes -= media.num_bytes

    def _settle(self) -> None:
        while self._let_go:
            self._num_bytes -= self._let_go.popleft()

    def check_integrity(self) -> None:
        """Raise AssertionError unless the counts agree with what is there."""
        self._settle()
        cached = sum([media.num_bytes for media in self._cached.values()])
        if cached != self._num_cached_bytes or not cached <= self._num_bytes or cached > self._max_bytes:
            raise AssertionError(f"{self!r}: {cached} bytes are cached")

    def __repr__(self) -> str:
        return (
            f"<EncodedMediaCache {self._num_bytes} of {self._max_bytes} bytes alive, "
            f"{len(self._cached)} cached>"
        )
