"""How sure the model is of the next token: entropy and margin of rows of raw logits.

A hook that reads them should not slow down whoever does not ask, and hardly its own sequence: about
60 µs a row of 49,152 tokens (docs/performance.md), nearly all of it without the interpreter, and
nothing for the rows of others. They must be read before sampling, which changes its rows in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from inference.domain.signals import MAX_MARGIN, TokenSignal
from inference.engine.llama.softmax import BindExponentials, fastest_exponentials

# e to this is nothing in float32, and times this still nothing: a stand-in for minus infinity, whose
# product with 0 would be no number.
LOWEST_GAP = np.float32(-200.0)


# A dot product of more than 10,000 numbers makes BLAS start threads, which spin beside llama.cpp's.
DOT_SIZE = 4096


class SignalMeter:
    """Measures rows of one vocabulary, in buffers that it keeps; `bind` by default is the fastest way."""

    def __init__(self, num_vocabulary: int, bind: BindExponentials | None = None) -> None:
        num_dots = -(-num_vocabulary // DOT_SIZE)
        # As many rows of zeros; the vocabulary is at the beginning of them.
        self._all_gaps = np.zeros((num_dots, DOT_SIZE), dtype=np.float32)
        self._all_masses = np.zeros((num_dots, DOT_SIZE), dtype=np.float32)
        self._gaps = self._all_gaps.reshape(-1)[:num_vocabulary]
        self._masses = self._all_masses.reshape(-1)[:num_vocabulary]
        self._exponentials = (bind or fastest_exponentials())(self._gaps, self._masses)

    def measure(self, logits: NDArray[np.float32], rows: Iterable[int]) -> dict[int, TokenSignal]:
        """By row: those of `logits` (rows, vocabulary) that are asked for. One without a finite
        maximum is left out, as nothing can be drawn from it.

        One row at a time: both buffers then stay in the core's cache, which a matrix of 16 rows would
        not. With gaps g below the maximum and Z the sum of e^g, the entropy is log Z - sum(g e^g) / Z.
        """
        found: dict[int, TokenSignal] = {}
        # Minus infinity times nothing is dealt with below, and what is too far below for float32 is that.
        with np.errstate(over="ignore", invalid="ignore"):
            for row in rows:
                signal = self._signal(logits[row])
                if signal is not None:
                    found[row] = signal
        return found

    def _signal(self, logits: NDArray[np.float32]) -> TokenSignal | None:
        best = int(logits.argmax())
        highest = logits[best]
        # argmax stops at a NaN, so what it found is the maximum, or tells that there is none.
        if not math.isfinite(highest):
            return None
        gaps = self._gaps
        np.subtract(logits, highest, out=gaps)
        total = self._exponentials()
        weighted = self._weighted_gaps()
        gaps[best] = -math.inf
        margin = min(-float(gaps.max()), MAX_MARGIN)
        if math.isnan(weighted):
            gaps[best] = 0.0
            np.maximum(gaps, LOWEST_GAP, out=gaps)
            weighted = self._weighted_gaps()
        # Rounding may bring the entropy of a certain token a little below none.
        return TokenSignal(entropy=max(math.log(total) - weighted / total, 0.0), margin=margin)

    def _weighted_gaps(self) -> float:
        return float(np.vecdot(self._all_masses, self._all_gaps).sum())
