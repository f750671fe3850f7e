"""Pictures and sounds in a conversation: as a caller sends them, and as a model's projector reads them.

A projector turns a picture or a sound into rows of numbers that stand where the embeddings of tokens
would. To everybody but the engine such a row is a token like others: it has a place in the prompt, a
KV cell, and an id, a made-up one (media_run.py).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol


class MediaKind(Enum):
    """What a part of a message is, if it is no text."""

    IMAGE = "image"
    AUDIO = "audio"


class UnreadableMedia(Exception):
    """A picture or a sound cannot be used, and why: the end of a sentence that begins with the part at
    fault. It is told to the caller, by whoever knows which part that is."""


def new_mark() -> str:
    """What stands in a text for a part that is no text: 128 random bits, so that nobody can write it, in
    lower-case letters and digits, so that no filter of a template (trim, tojson, lower) changes it."""
    return f"z{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class MediaPart:
    """A part of a message, as the wire read it: bytes of a file (`data`), or where they are (`url`, of
    http or https). Both are the caller's and never trusted. `param` names it in errors, like
    "messages[0].content[1]"; `mark` stands for it in the message's text."""

    kind: MediaKind
    param: str
    data: bytes | None = None
    url: str | None = None
    mark: str = field(default_factory=new_mark)

    def __repr__(self) -> str:
        # Neither pictures nor addresses belong into a log.
        return f"<MediaPart {self.param}, {self.kind.value}>"


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A decoded picture: `rgb` has 3 bytes for each of width × height pixels, row by row. `digest`
    (SHA-256) is that of the file it was made from: equal files are equal pictures."""

    width: int
    height: int
    rgb: bytes
    digest: bytes

    def __repr__(self) -> str:
        return f"<Picture {self.width} × {self.height}>"


@dataclass(frozen=True, slots=True, repr=False)
class Sound:
    """A decoded sound: `samples` are float32 in the machine's byte order, one channel, from -1 to 1, at
    the rate that the projector wants. `digest` as a picture's."""

    samples: bytes
    rate: int
    digest: bytes

    def __repr__(self) -> str:
        return f"<Sound of {len(self.samples) // 4 / max(self.rate, 1):.1f} s>"


class EmbeddingRows(Protocol):
    """Rows for a model's input: a float32 array (num_tokens, width), never changed. (numpy's, which this
    layer does not know.)"""

    def __len__(self) -> int: ...

    def __array__(self) -> Any: ...


class OffsetArray(Protocol):
    """int32 (3, num_tokens), never changed. (numpy's, which this layer does not know.)"""

    def __array__(self) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class MediaGrid:
    """The places of rows in models that have them in a plane (M-RoPE): `offsets` in time, from the top
    and from the left, counted from where the piece begins. It takes up `num_positions` positions,
    however many rows it has."""

    offsets: OffsetArray
    num_positions: int


@dataclass(frozen=True, slots=True)
class MediaPiece:
    """A stretch of what stands for a picture or a sound in the prompt.

    Either tokens of the model's own (which say that a picture begins, or where its next tile is), or,
    where `is_embedded`, rows of embeddings under made-up ids. Without `is_causal` the rows see each
    other in both directions, and must be computed all at once. Without a `grid` one stands behind the other.
    """

    token_ids: tuple[int, ...]
    is_embedded: bool = False
    is_causal: bool = True
    grid: MediaGrid | None = None


class MediaProjector(Protocol):
    """Turns pictures and sounds into tokens and embeddings for one model."""

    @property
    def kinds(self) -> frozenset[MediaKind]:
        """What it can read."""
        ...

    @property
    def sound_rate(self) -> int:
        """Samples a second of the sounds that it reads; 0 where it reads none."""
        ...

    @property
    def row_bytes(self) -> int:
        """Memory of the embeddings that are one token."""
        ...

    def lay_out(self, item: Picture | Sound) -> tuple[MediaPiece, ...]:
        """How many tokens it makes, without computing them. Thread-safe; takes milliseconds. Raises
        UnreadableMedia."""
        ...

    def encode(self, item: Picture | Sound) -> tuple[EmbeddingRows, ...]:
        """The rows of each embedded piece, in their order. Takes from milliseconds to many seconds; one
        call at a time, always on the same thread. Raises GenerationFailed."""
        ...

    def close(self) -> None:
        """Free it, once nobody uses it any more. Later calls do nothing."""
        ...
