"""Brings together what the engine says of token ids and where their text went."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from inference.domain.logprobs import LikelyToken, ScoredToken, TokenLogprobs
from inference.domain.tokenizer import Tokenizer
from inference.parsing.token_spans import TokenSpan


class TokenScores:
    """Of one answer. Logprobs come with the tokens, their text when it is safe: they wait here."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._waiting: deque[TokenLogprobs] = deque()

    def tokens(
        self, logprobs: Sequence[TokenLogprobs], spans: Sequence[TokenSpan]
    ) -> tuple[ScoredToken, ...]:
        """`logprobs` are those of new tokens, `spans` those whose text goes out; both in order."""
        self._waiting.extend(logprobs)
        return tuple([self._score(span) for span in spans]) if spans else ()

    def _score(self, span: TokenSpan) -> ScoredToken:
        known = self._waiting.popleft()
        pieces = self._tokenizer.pieces
        text, data = self._words(span.token_id, span.data)
        top = [
            LikelyToken(*self._words(token_id, pieces[token_id]), logprob) for token_id, logprob in known.top
        ]
        return ScoredToken(text, data, known.logprob, span.offset, tuple(top))

    def _words(self, token_id: int, data: bytes) -> tuple[str, bytes | None]:
        name = self._tokenizer.control_texts.get(token_id)
        if name is not None:
            return name, None
        return data.decode("utf-8", "replace"), data
