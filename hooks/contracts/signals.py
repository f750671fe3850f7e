"""How sure the model is, as policies see it: entropy in nats, margin as the natural logarithm of how many
times likelier the first token is than the second."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FirstTokenSignals:
    """At the true first token of the answer."""

    entropy: float
    margin: float


@dataclass(frozen=True, slots=True)
class WindowSignals:
    """Over the last `num_tokens` of `num_decoded` tokens. `num_high_entropy` had an entropy above the
    rule's bound; `num_repetitions` tokens equal the one before them. `rules` are those that fired, as
    places in the list of rules that was asked for."""

    num_decoded: int
    num_tokens: int
    mean_entropy: float
    max_entropy: float
    mean_margin: float
    min_margin: float
    num_high_entropy: int
    num_repetitions: int
    rules: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class WindowRule:
    """When a window is told: at least `min_decoded` tokens, at least `min_between` since it was told last,
    and (a share of `min_high_share` of the window's tokens with an entropy above `high_entropy`, or at least
    `min_repetitions` adjacent equal tokens). The defaults are those of the service that hooks were first
    written for. `every_tokens`: told so often too, whatever the window says; 0: not."""

    window_tokens: int = 16
    min_decoded: int = 12
    min_between: int = 32
    high_entropy: float = 4.0
    min_high_share: float = 0.75
    min_repetitions: int = 3
    every_tokens: int = 0
