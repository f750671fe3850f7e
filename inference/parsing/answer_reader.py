"""Tokens of one answer to what its client gets: text, thinking and calls, until something ends it.

Streams and whole answers read through the same object, so that they cannot differ. Where nothing has to
be parsed, text is all there is and its tokens are followed to the letter; where a parser is, it reads
the text first (with the control tokens that it must see), and stop strings are looked for in what is
content: never in thinking, in markup or in the arguments of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inference.domain.logprobs import ScoredToken, TokenLogprobs
from inference.domain.message_deltas import ContentDelta, MessageDelta, MessageParser, ReasoningDelta
from inference.domain.tokenizer import Tokenizer
from inference.parsing.stop_strings import StopStrings
from inference.parsing.text_stream import TextStream
from inference.parsing.token_scores import TokenScores


@dataclass(frozen=True, slots=True)
class ReadPart:
    """What some tokens added. `num_tokens` are those that count, up to and with the one that ended the
    answer where `is_ended`; `num_reasoning_tokens` are a part of them."""

    deltas: tuple[MessageDelta, ...]
    tokens: tuple[ScoredToken, ...] = ()
    num_tokens: int = 0
    num_reasoning_tokens: int = 0
    is_ended: bool = False


class AnswerReader:
    """Of one answer. After a part that `is_ended` the generation should be cancelled; what still comes is
    dropped and not counted.

    `pieces` is the table of bytes by token id that the parser wants to see, the tokenizer's own without
    one. `is_parser_early`: the parser may find an answer complete before the model ends it.
    `is_reasoning_shown`: thinking is parsed either way, and dropped where nobody may see it. In the first
    `min_tokens` tokens no stop is looked for.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        stops: Sequence[str] = (),
        tracks_tokens: bool = False,
        parser: MessageParser | None = None,
        is_parser_early: bool = False,
        pieces: Sequence[bytes] | None = None,
        is_reasoning_shown: bool = True,
        min_tokens: int = 0,
    ) -> None:
        self._parser = parser
        self.has_tokens = tracks_tokens
        self.may_end_early = bool(stops) or is_parser_early
        """Something but the engine may end the answer."""
        self._is_reasoning_shown = is_reasoning_shown
        self._text = TextStream(
            tokenizer.pieces if pieces is None else pieces,
            stops if parser is None else (),
            tracks_tokens=tracks_tokens,
            min_tokens=min_tokens,
        )
        self._content_stops = StopStrings(stops if parser is not None else (), num_unwatched=min_tokens)
        self._scores = TokenScores(tokenizer)

    @property
    def is_plain(self) -> bool:
        """Nothing is looked for, parsed or tracked: `feed_plain` will do."""
        return self._parser is None and self._text.is_plain

    @property
    def is_parsed(self) -> bool:
        """Thinking and calls are told apart from the text: not all tokens are those of the content."""
        return self._parser is not None

    @property
    def has_called(self) -> bool:
        """The model made its calls, all of them whole."""
        return self._parser is not None and self._parser.has_called

    @property
    def is_in_markup(self) -> bool:
        """The model is writing a call or a mark, or may be."""
        return self._parser is not None and self._parser.is_in_markup

    @property
    def is_in_character(self) -> bool:
        """The last token ended inside of a character."""
        return self._text.is_in_character

    def interject(self, text: str) -> ReadPart:
        """Text of somebody else, to be shown as content behind all that was read so far, whether there are
        stops in it or not. Only where neither `is_in_markup` nor `is_in_character`."""
        if self._parser is None:
            deltas: list[MessageDelta] = [ContentDelta(self._text.interject(text))]
            return ReadPart(tuple(deltas), self._scores.tokens((), self._text.take_spans()))
        held = self._content_stops.flush()
        deltas = [ContentDelta(held)] if held else []
        return ReadPart((*deltas, *self._parser.interject(text)))

    @property
    def found_stop(self) -> str | None:
        return self._text.found_stop if self._parser is None else self._content_stops.found

    def feed_plain(self, token_ids: Sequence[int]) -> str:
        """The text that these tokens complete; all of them count. Only where `is_plain`."""
        return self._text.feed_plain(token_ids)

    def feed(self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs] = ()) -> ReadPart:
        if self._parser is not None:
            return self._feed_parser(self._parser, token_ids, logprobs)
        delta = self._text.feed(token_ids)
        tokens = self._scores.tokens(logprobs, self._text.take_spans())
        deltas = (ContentDelta(delta.text),) if delta.text else ()
        return ReadPart(deltas, tokens, delta.num_tokens, is_ended=delta.is_stopped)

    def finish(self) -> ReadPart:
        """The generation has ended, for whatever reason: what was held back, once."""
        rest = self._text.finish()
        tokens = self._scores.tokens((), self._text.take_spans())
        if self._parser is None:
            return ReadPart((ContentDelta(rest),) if rest else (), tokens)
        if self._content_stops.is_stopped:
            return ReadPart((), tokens)
        deltas = self._visible([*self._parser.feed(rest), *self._parser.finish()])
        held = self._content_stops.flush()
        if held:
            deltas.append(ContentDelta(held))
        return ReadPart(tuple(deltas), tokens)

    def _feed_parser(
        self, parser: MessageParser, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs]
    ) -> ReadPart:
        """Token by token: the counts must end with the one that ends the answer."""
        deltas: list[MessageDelta] = []
        num_tokens = num_reasoning = 0
        is_plain = self._text.is_plain
        is_ended = self._content_stops.is_stopped or parser.is_complete
        for token_id in token_ids:
            if is_ended:
                break
            ids = (token_id,)
            self._content_stops.count()
            found = parser.feed(self._text.feed_plain(ids) if is_plain else self._text.feed(ids).text)
            num_tokens += 1
            num_reasoning += parser.is_reasoning
            if found:
                deltas += self._visible(found)
            is_ended = self._content_stops.is_stopped or parser.is_complete
        tokens = () if is_plain else self._scores.tokens(logprobs[:num_tokens], self._text.take_spans())
        return ReadPart(tuple(deltas), tokens, num_tokens, num_reasoning, is_ended)

    def _visible(self, found: Iterable[MessageDelta]) -> list[MessageDelta]:
        """Without what a stop string took away and what nobody may see."""
        stops = self._content_stops
        visible: list[MessageDelta] = []
        for delta in found:
            if isinstance(delta, ContentDelta):
                text = stops.push(delta.text)
                if text:
                    visible.append(ContentDelta(text))
                if stops.is_stopped:
                    break
                continue
            held = stops.flush()
            if held:
                # A stop does not reach over something that is no text.
                visible.append(ContentDelta(held))
            if self._is_reasoning_shown or not isinstance(delta, ReasoningDelta):
                visible.append(delta)
        return visible
