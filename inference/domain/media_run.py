"""Where embeddings stand in a prompt instead of tokens, and under which ids."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from inference.domain.media import EmbeddingRows, MediaGrid, MediaPiece

_SIGN = -0x8000_0000


@dataclass(frozen=True, slots=True, eq=False)
class MediaRun:
    """The tokens of a prompt from `start` on, as many as there are `embeddings`, are not looked up but
    given. Without `is_causal` they are computed in one batch or not at all; with a `grid` they stand in a
    plane. `owner` is what counts the
    memory of the embeddings, and lives as long as the run does."""

    start: int
    embeddings: EmbeddingRows
    is_causal: bool = True
    grid: MediaGrid | None = None
    owner: object = None

    @property
    def num_tokens(self) -> int:
        return len(self.embeddings)

    @property
    def end(self) -> int:
        return self.start + len(self.embeddings)

    @property
    def num_positions(self) -> int:
        """Of the sequence, until what is behind it."""
        return len(self.embeddings) if self.grid is None else self.grid.num_positions

    @property
    def num_saved_positions(self) -> int:
        """By how much its tokens are more than its positions."""
        return len(self.embeddings) - self.num_positions

    def __repr__(self) -> str:
        return f"<MediaRun [{self.start}, {self.end})>"


@dataclass(frozen=True, slots=True)
class MediaPlace:
    """From `start` on, a prompt has the rows of `piece`, the embedded one number `index` of the part with
    this `mark`."""

    start: int
    mark: str
    index: int
    piece: MediaPiece


def media_token_ids(digest: bytes, index: int, count: int) -> tuple[int, ...]:
    """Ids for `count` rows, of the stretch `index` of what has this digest: below 0, where no vocabulary
    has any, and for the same picture always the same.

    The prefix cache compares prompts by their ids and shares whole runs alone. That two pictures have
    the same ids by chance takes 31 equal bits in each row.
    """
    drawn = hashlib.shake_256(digest + struct.pack("<i", index)).digest(4 * count)
    return tuple([number | _SIGN for number in struct.unpack(f"<{count}i", drawn)])
