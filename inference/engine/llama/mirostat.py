"""Mirostat: keeps the surprise of an answer near a target by moving the cut after every token.

Basu et al., "Mirostat: a neural text decoding algorithm that directly controls perplexity"
(https://arxiv.org/abs/2007.14966), as llama.cpp has it (llama-sampler.cpp, llama_sampler_mirostat_apply
and llama_sampler_mirostat_v2_apply). Surprise is in bits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from inference.domain.requests import SamplingParams
from inference.engine.llama.candidates import IdArray, highest, weighted_choice

# From this many of the likeliest tokens version 1 estimates how steeply likelihood falls; llama.cpp's m.
NUM_ESTIMATED = 100
# Beyond any vocabulary, as a power of two.
MAX_MU = 64.0


class Mirostat:
    """The moving cut of one sequence, for both versions."""

    __slots__ = ("_last_mu", "_mu", "_params")

    def __init__(self, params: SamplingParams) -> None:
        self._params = params
        self._mu = self._last_mu = 2 * params.mirostat_entropy

    def draw(
        self, logits: NDArray[np.float64], token_ids: IdArray, uniform: float, *, num_vocabulary: int
    ) -> int:
        """An index into `logits`, whose order does not matter."""
        if self._params.mirostat_mode == 1:
            kept = highest(logits, token_ids, self._size(logits, token_ids, num_vocabulary))
        else:
            kept = self._unsurprising(logits, token_ids)
        weights = np.exp(logits[kept] - logits[kept[0]])
        drawn = weighted_choice(weights, uniform)
        surprise = -math.log2(max(float(weights[drawn] / weights.sum()), 1e-300))
        self._last_mu = self._mu
        self._mu -= self._params.mirostat_learning_rate * (surprise - self._params.mirostat_entropy)
        return int(kept[drawn])

    def take_back(self) -> None:
        """What was drawn last is thrown away."""
        self._mu = self._last_mu

    def _size(self, logits: NDArray[np.float64], token_ids: IdArray, num_vocabulary: int) -> int:
        """How many tokens have the wanted surprise, if likelihood falls as Zipf's law says."""
        falls = -np.diff(logits[highest(logits, token_ids, NUM_ESTIMATED)])
        steps = np.log(np.arange(2, len(falls) + 2) / np.arange(1, len(falls) + 1))
        if not len(falls):
            return 1
        exponent = float((steps * falls).sum() / (steps * steps).sum())
        epsilon = exponent - 1
        mu = min(self._mu, MAX_MU)
        if exponent <= 0:
            return len(logits)
        if abs(epsilon) < 1e-6:
            # The limit of the quotient below.
            wanted = 2**mu / math.log(num_vocabulary)
        else:
            wanted = epsilon * 2**mu / (1 - num_vocabulary**-epsilon)
        log_size = math.log(max(wanted, 1e-300)) / exponent
        return min(max(int(math.exp(min(log_size, 40.0))), 1), len(logits))

    def _unsurprising(self, logits: NDArray[np.float64], token_ids: IdArray) -> IdArray:
        """The tokens that are no more surprising than the cut, falling; at least the likeliest one."""
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        found = np.flatnonzero(shares >= 2.0 ** -min(max(self._mu, -1000.0), 1000.0))
        if not len(found):
            return highest(logits, token_ids, 1)
        return found[highest(logits[found], token_ids[found], len(found))]
