"""Where a sequence stands among the pictures and sounds of its prompt: what of them it computes next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inference.domain.media_run import MediaRun
from inference.engine.positions import PositionMap
from inference.engine.sequence import InvalidTransition, Sequence

EmbeddingArray = NDArray[np.float32]
PlaceArray = NDArray[np.int32]


def media_run(sequence: Sequence) -> MediaRun | None:
    """The run of embeddings that its next token belongs to; None where that is a token indeed."""
    for run in sequence.request.media:
        if run.start <= sequence.num_computed < run.end:
            return run
    return None


def num_alike(sequence: Sequence) -> int:
    """How many of the tokens to compute may be in one batch: all, up to where embeddings begin or
    end, since llama.cpp takes a batch of tokens or one of embeddings, or where its state is copied."""
    begin, end = sequence.num_computed, sequence.num_tokens
    for place in (sequence.next_place, sequence.sibling_place):
        if begin < place < end:
            end = place
    for run in sequence.request.media:
        if begin < run.end:
            end = min(end, run.start if begin < run.start else run.end)
            break
    return end - begin


def next_position(sequence: Sequence) -> int:
    """Where its next token stands, or the run that this is the first one of begins."""
    if not sequence.num_saved_positions:
        return sequence.num_computed
    return PositionMap(sequence.request.media).position(sequence.num_computed)


def pending_places(sequence: Sequence, num_tokens: int) -> PlaceArray | None:
    """Where the next `num_tokens` rows of its run stand, int32 (4, num_tokens): in time, from the
    top, from the left, and 0; None where they stand behind each other."""
    run = media_run(sequence)
    if run is None or run.grid is None:
        return None
    begin = sequence.num_computed - run.start
    places: PlaceArray = np.zeros((4, num_tokens), dtype=np.int32)
    places[:3] = np.asarray(run.grid.offsets, dtype=np.int32)[:, begin : begin + num_tokens]
    places[:3] += next_position(sequence)
    return places


def pending_embeddings(sequence: Sequence, num_tokens: int) -> EmbeddingArray:
    """The next `num_tokens` rows of the run that it is in, float32 (num_tokens, width)."""
    run = media_run(sequence)
    if run is None or sequence.num_computed + num_tokens > run.end:
        raise InvalidTransition(f"{sequence!r} has no {num_tokens} embeddings to compute next")
    begin = sequence.num_computed - run.start
    rows: EmbeddingArray = np.asarray(run.embeddings, dtype=np.float32)
    return rows[begin : begin + num_tokens]


def uncut(sequence: Sequence, num_tokens: int) -> int:
    """At most `num_tokens`, and no run of embeddings is cut there: a part of a picture is nothing to
    share or to go on from."""
    for run in sequence.request.media:
        # One in a plane that nothing follows cannot be told from a part of it (positions.py).
        end = run.end if run.grid is None else run.end + 1
        if run.start < num_tokens < end:
            return run.start
    return num_tokens
