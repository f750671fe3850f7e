"""Where pictures and sounds stand in a rendered prompt."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from inference.domain.errors import InvalidRequest
from inference.domain.media import MediaPart, MediaPiece
from inference.domain.media_run import MediaPlace
from inference.prompting.control_text import Segment


def cut_at_marks(segments: Sequence[Segment], marks: Collection[str]) -> list[Segment]:
    """The segments, with one of its own for each mark that stands in them."""
    if not marks:
        return list(segments)
    pattern = re.compile(f"({'|'.join(sorted(map(re.escape, marks)))})")
    cut: list[Segment] = []
    for segment in segments:
        # Every second piece is what stood between the others: a mark.
        for index, text in enumerate(pattern.split(segment.text)):
            if index % 2:
                cut.append(Segment("", is_plain=segment.is_plain, mark=text))
            elif text:
                cut.append(Segment(text, is_plain=segment.is_plain))
    return cut


def put_media(
    mark: str, pieces: Sequence[MediaPiece], start: int, places: list[MediaPlace]
) -> tuple[int, ...]:
    """The ids that stand for a part from `start` on; adds to `places` where its embeddings are."""
    ids: list[int] = []
    index = 0
    for piece in pieces:
        if piece.is_embedded:
            places.append(MediaPlace(start + len(ids), mark, index, piece))
            index += 1
        ids += piece.token_ids
    return tuple(ids)


def check_all_placed(parts: Sequence[MediaPart], places: Sequence[MediaPlace]) -> None:
    """Raise InvalidRequest for a part that is not in the prompt: silently, the answer would be about
    something that the model has not seen."""
    placed = {place.mark for place in places}
    for part in parts:
        if part.mark not in placed:
            raise InvalidRequest(
                f"Invalid '{part.param}': there is no place for it in the prompt of this model.",
                param=part.param,
            )
