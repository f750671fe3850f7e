"""How likely tokens were: what the engine says of ids, and what the wire says of text.

All are natural logarithms of the model's own distribution over the whole vocabulary, before bias,
penalties, temperature or any cut: what OpenAI's `logprobs` mean.
"""

from __future__ import annotations

from dataclasses import dataclass

# OpenAI's stand-in for "as good as impossible"; JSON has no infinity.
MIN_LOGPROB = -9999.0


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of one drawn token; `top` are the most likely ids at its place and theirs, falling."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LikelyToken:
    """A token that might have been. `data` is what it would add to the text; None for a control
    token, which adds nothing and is called by its name."""

    text: str
    data: bytes | None
    logprob: float


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the answer. The `data` of all of them, joined, are the bytes of the answer's text;
    `offset` is the number of characters before it. `logprob` is None where nothing is known, which is so
    of the first token of a prompt alone."""

    text: str
    data: bytes | None
    logprob: float | None
    offset: int
    top: tuple[LikelyToken, ...] = ()
