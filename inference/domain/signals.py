"""How sure the model is: what a hook may ask of a generation, and what it is told.

All numbers are of the model's own distribution over the whole vocabulary, before bias, penalties,
temperature or any cut: entropy in nats, margin as the natural logarithm of how many times likelier
the first token is than the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_WINDOW_TOKENS = 1024
# The margin over a token that is as good as impossible, or not there; JSON has no infinity.
MAX_MARGIN = 9999.0


@dataclass(frozen=True, slots=True)
class SignalRule:
    """When a window of the last `window_tokens` tokens is told: with at least `min_decoded` tokens of the
    answer, at least `min_between` since this rule told one last, and where a share of `min_high_share` of the
    window's tokens had an entropy above `high_entropy`, or `min_repetitions` of them equal the one before
    them. `every_tokens`: at each multiple of so many tokens, too, whatever the window says; 0: not.

    The defaults are those of the service that hooks were first written for; an entropy of 4 is about as
    unsure as between 55 equally likely tokens. Raises ValueError for numbers that make no sense.
    """

    window_tokens: int = 16
    min_decoded: int = 12
    min_between: int = 32
    high_entropy: float = 4.0
    min_high_share: float = 0.75
    min_repetitions: int = 3
    every_tokens: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.window_tokens <= MAX_WINDOW_TOKENS:
            raise ValueError(f"a window has 1 to {MAX_WINDOW_TOKENS} tokens, not {self.window_tokens}")
        if min(self.min_decoded, self.min_between, self.min_repetitions, self.every_tokens) < 0:
            raise ValueError(f"a rule counts from 0 on: {self}")
        if not (math.isfinite(self.high_entropy) and math.isfinite(self.min_high_share)):
            raise ValueError(f"a rule needs numbers: {self}")


@dataclass(frozen=True, slots=True)
class SignalRequest:
    """What to tell of one sequence: of its first token, and of its last ones where one of the `rules` fires.

    `wants_hold`: with each of these the engine holds the sequence (HoldReason.HOOK), so that the next
    token is computed only after `resume()`.
    """

    wants_first_token: bool = True
    rules: tuple[SignalRule, ...] = (SignalRule(),)
    wants_hold: bool = True


@dataclass(frozen=True, slots=True)
class TokenSignal:
    """At the place of one token: entropy in nats, margin from 0 to MAX_MARGIN."""

    entropy: float
    margin: float


@dataclass(frozen=True, slots=True)
class SignalWindow:
    """Over the last `num_tokens` tokens that the model drew. `num_high_entropy` of them had an entropy above
    the rules' bound; `num_repetitions` is how often a token equals the one before it. `rules` are those that
    fired, as their places in the request, rising; they agree in the size of the window and the bound."""

    num_tokens: int
    mean_entropy: float
    max_entropy: float
    mean_margin: float
    min_margin: float
    num_high_entropy: int
    num_repetitions: int
    rules: tuple[int, ...] = (0,)
