"""How sure the model is: what a hook may ask of a generation, and what it is told.

All numbers are of the model's own distribution over the whole vocabulary, before bias, penalties,
temperature or any cut: entropy in nats, margin as the natural logarithm of how many times likelier
the first token is than the second.
"""

from __future__ import annotations

from dataclasses import dataclass

# What hooks were first written for.
DEFAULT_WINDOW_TOKENS = 16
MAX_WINDOW_TOKENS = 1024
# The margin over a token that is as good as impossible, or not there; JSON has no infinity.
MAX_MARGIN = 9999.0


@dataclass(frozen=True, slots=True)
class SignalRequest:
    """What to tell of one sequence: of its first token, and of the last `window_tokens` tokens (0:
    never) whenever the model is lost or repeats itself (inference/engine/signals.py has the rule).

    `wants_hold`: with each of these the engine holds the sequence (HoldReason.HOOK), so that the next
    token is computed only after `resume()`.
    """

    wants_first_token: bool = True
    window_tokens: int = DEFAULT_WINDOW_TOKENS
    wants_hold: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.window_tokens <= MAX_WINDOW_TOKENS:
            raise ValueError(f"a window has 0 to {MAX_WINDOW_TOKENS} tokens, not {self.window_tokens}")


@dataclass(frozen=True, slots=True)
class TokenSignal:
    """At the place of one token: entropy in nats, margin from 0 to MAX_MARGIN."""

    entropy: float
    margin: float


@dataclass(frozen=True, slots=True)
class SignalWindow:
    """Over the last `num_tokens` tokens. `num_high_entropy` of them had an entropy above the rule's
    bound; `num_repetitions` is how often a token equals the one before it."""

    num_tokens: int
    mean_entropy: float
    max_entropy: float
    mean_margin: float
    min_margin: float
    num_high_entropy: int
    num_repetitions: int
