"""Token ids of one answer to the text that the client gets, whole or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference.parsing.detokenizer import Detokenizer
from inference.parsing.stop_strings import StopStrings


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What some tokens added. `num_tokens` are those that count: up to and with the token that
    completed a stop string, none behind it. `text` may be empty while text is held back."""

    text: str
    num_tokens: int
    is_stopped: bool


class TextStream:
    """Detokenizes one answer and watches for its stops.

    The deltas' texts and `finish()` joined are the whole answer, whatever way its tokens came in
    batches. `pieces` is the tokenizer's table (bytes by token id). After a delta that is stopped,
    the generation should be cancelled; tokens that still come are dropped and not counted.
    """

    def __init__(self, pieces: Sequence[bytes], stops: Sequence[str] = ()) -> None:
        self._pieces = pieces
        self._detokenizer = Detokenizer()
        self._stops = StopStrings(stops)
        self._has_stops = bool(stops)

    @property
    def is_stopped(self) -> bool:
        return self._stops.is_stopped

    def feed(self, token_ids: Sequence[int]) -> TextDelta:
        if self._stops.is_stopped:
            return TextDelta("", 0, True)
        if not self._has_stops:
            pieces = self._pieces
            text = self._detokenizer.push(b"".join([pieces[token_id] for token_id in token_ids]))
            return TextDelta(text, len(token_ids), False)
        # Token by token: the count must end with the one that completes a stop.
        texts: list[str] = []
        for num_fed, token_id in enumerate(token_ids, start=1):
            texts.append(self._stops.push(self._detokenizer.push(self._pieces[token_id])))
            if self.is_stopped:
                return TextDelta("".join(texts), num_fed, True)
        return TextDelta("".join(texts), len(token_ids), False)

    def finish(self) -> str:
        """The generation has ended: what was held back, once. Empty after a stop."""
        if self._stops.is_stopped:
            return ""
        return self._stops.push(self._detokenizer.flush()) + self._stops.flush()
