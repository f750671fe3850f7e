"""A prompt as the beginning of its own answer: OpenAI's `echo`, with and without logprobs.

Who scores texts with a model sends them as prompts and reads how likely their tokens were. The text goes
out at once, as it was sent; the scores of its tokens follow as they are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.domain.logprobs import ScoredToken, TokenLogprobs
from inference.domain.message_deltas import AnswerPart, ContentDelta
from inference.domain.tokenizer import Tokenizer
from inference.parsing.text_stream import TextStream
from inference.parsing.token_scores import TokenScores
from inference.parsing.token_spans import TokenSpan


@dataclass(frozen=True, slots=True)
class EchoedText:
    """A prompt's text and which of its tokens wrote what of it."""

    text: str
    spans: tuple[TokenSpan, ...]


def echoed_text(tokenizer: Tokenizer, token_ids: Sequence[int], sent: str | None) -> EchoedText:
    """Of a prompt that was `sent` as text, or as token ids (None). Control tokens add nothing to it. Takes a
    few microseconds for each token."""
    stream = TextStream(tokenizer.pieces, tracks_tokens=True)
    written = stream.feed(token_ids).text + stream.finish()
    spans = stream.take_spans()
    text = written if sent is None else sent
    if written == " " + text:
        # SentencePiece puts a space before the first word, which nobody sent.
        spans = _without_first_character(spans)
    # A vocabulary that normalizes text may have written more than was sent.
    return EchoedText(text, tuple([replace(one, offset=min(one.offset, len(text))) for one in spans]))


class EchoedPrompt:
    """Of one answer. `begin()` first, then `score()` with the logprobs of its tokens from the second one on,
    in their order; nothing is known of the first. `shift()` is for what comes behind it."""

    def __init__(self, tokenizer: Tokenizer, echoed: EchoedText, *, is_scored: bool) -> None:
        self.text = echoed.text
        self._scores = TokenScores(tokenizer)
        self._is_scored = is_scored
        self._spans = iter(echoed.spans)

    def begin(self) -> AnswerPart:
        tokens: tuple[ScoredToken, ...] = ()
        if self._is_scored:
            tokens = (replace(self._scored(TokenLogprobs(0.0)), logprob=None),)
        return AnswerPart((ContentDelta(self.text),) if self.text else (), tokens, is_prompt=True)

    def score(self, logprobs: Sequence[TokenLogprobs]) -> AnswerPart:
        return AnswerPart((), tuple([self._scored(one) for one in logprobs]), is_prompt=True)

    def shift(self, tokens: Sequence[ScoredToken]) -> tuple[ScoredToken, ...]:
        """Tokens of the answer, whose text begins behind the prompt's."""
        num_chars = len(self.text)
        return tuple([replace(token, offset=token.offset + num_chars) for token in tokens])

    def _scored(self, logprobs: TokenLogprobs) -> ScoredToken:
        (token,) = self._scores.tokens([logprobs], [next(self._spans)])
        return token


def _without_first_character(spans: Sequence[TokenSpan]) -> list[TokenSpan]:
    """The first token that writes something begins with a space that does not count."""
    result: list[TokenSpan] = []
    is_there = False
    for span in spans:
        data = span.data
        if not is_there and data:
            is_there, data = True, data[1:]
        result.append(replace(span, data=data, offset=max(0, span.offset - 1)))
    return result
