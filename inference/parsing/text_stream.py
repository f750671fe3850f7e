"""Token ids of one answer to the text that the client gets, whole or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference.parsing.detokenizer import Detokenizer
from inference.parsing.stop_strings import StopStrings
from inference.parsing.token_spans import TokenSpan, TokenSpans


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
    the generation should be cancelled; tokens that still come are dropped and not counted. In the first
    `min_tokens` tokens no stop is looked for.

    With `tracks_tokens`, text ends where a token does, and `take_spans` says which tokens it was.
    """

    def __init__(
        self,
        pieces: Sequence[bytes],
        stops: Sequence[str] = (),
        *,
        tracks_tokens: bool = False,
        min_tokens: int = 0,
    ) -> None:
        self._pieces = pieces
        self._detokenizer = Detokenizer()
        self._stops = StopStrings(stops, num_unwatched=min_tokens)
        self._has_stops = bool(stops)
        self._spans = TokenSpans() if tracks_tokens else None

    @property
    def is_stopped(self) -> bool:
        return self._stops.is_stopped

    @property
    def found_stop(self) -> str | None:
        """The stop string that ended the text."""
        return self._stops.found

    @property
    def is_plain(self) -> bool:
        """Nothing is looked for and nothing tracked: `feed_plain` will do."""
        return not self._has_stops and self._spans is None

    def feed_plain(self, token_ids: Sequence[int]) -> str:
        """The text that these tokens complete; all of them count. Only where `is_plain`."""
        pieces = self._pieces
        return self._detokenizer.push(b"".join([pieces[token_id] for token_id in token_ids]))

    def feed(self, token_ids: Sequence[int]) -> TextDelta:
        if self._stops.is_stopped:
            return TextDelta("", 0, True)
        if self._spans is not None:
            return self._feed_tracked(token_ids, self._spans)
        if not self._has_stops:
            return TextDelta(self.feed_plain(token_ids), len(token_ids), False)
        # Token by token: the count must end with the one that completes a stop.
        texts: list[str] = []
        for num_fed, token_id in enumerate(token_ids, start=1):
            self._stops.count()
            texts.append(self._stops.push(self._detokenizer.push(self._pieces[token_id])))
            if self.is_stopped:
                return TextDelta("".join(texts), num_fed, True)
        return TextDelta("".join(texts), len(token_ids), False)

    def finish(self) -> str:
        """The generation has ended: what was held back, once. Empty after a stop."""
        if self._stops.is_stopped:
            return ""
        rest = self._stops.push(self._detokenizer.flush()) + self._stops.flush()
        return rest if self._spans is None else self._spans.finish(rest, is_cut=self.is_stopped)

    @property
    def is_in_character(self) -> bool:
        """The bytes so far end inside of a character."""
        return bool(self._detokenizer.waiting)

    def interject(self, text: str) -> str:
        """`text`, which no token wrote, behind all that was held back: that is just text then. Not where it
        `is_in_character`."""
        held = self._stops.flush()
        if self._spans is not None:
            held = self._spans.finish(held, is_cut=False)
            self._spans.skip(len(text))
        return held + text

    def take_spans(self) -> list[TokenSpan]:
        """The tokens of the text since the last call; none unless they are tracked."""
        return [] if self._spans is None else self._spans.take()

    def _feed_tracked(self, token_ids: Sequence[int], spans: TokenSpans) -> TextDelta:
        texts: list[str] = []
        for num_fed, token_id in enumerate(token_ids, start=1):
            piece, before = self._pieces[token_id], self._detokenizer.waiting
            decoded = self._detokenizer.push(piece)
            is_open = bool(self._detokenizer.waiting)
            spans.add(token_id, piece, num_chars=len(decoded), before=before, is_open=is_open)
            self._stops.count()
            safe = self._stops.push(decoded)
            if self.is_stopped:
                texts.append(spans.finish(safe, is_cut=True))
                return TextDelta("".join(texts), num_fed, True)
            texts.append(spans.release(safe))
        return TextDelta("".join(texts), len(token_ids), False)
