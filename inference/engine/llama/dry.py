"""DRY ("don't repeat yourself"): the token that would prolong a repeated sequence becomes unlikely.

After p-e-w's sampler (https://github.com/oobabooga/text-generation-webui/pull/5677) as llama.cpp has
it (llama-sampler.cpp, llama_sampler_dry_apply). llama.cpp walks the vocabulary once for each set of
sequence breakers, tens of milliseconds that the engine thread does not have: breakers are looked
for in the text of the tokens instead, as they come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.domain.requests import SamplingParams

# A repetition counts as no longer than this. With the usual base its penalty is beyond all logits
# after 20 tokens.
MAX_REPEATED = 256
# Penalties stay below exp(69) ~ 1e30 times the multiplier: finite as float32.
MAX_EXPONENT = 69.0


class _DryState(NamedTuple):
    """The arrays are never changed."""

    tokens: NDArray[np.int64]
    repeated: NDArray[np.int64]
    tail: bytes
    num_since_break: int


class Dry:
    """What one sequence has said so far, and how much of its end was said before.

    `_repeated[i]` is how many tokens up to and with place i are the same as those at the end; one
    pass over the window keeps it up to date when a token comes.
    """

    __slots__ = (
        "_before_last",
        "_breakers",
        "_num_since_break",
        "_params",
        "_pieces",
        "_repeated",
        "_tail",
        "_tokens",
    )

    def __init__(
        self, params: SamplingParams, prompt_token_ids: Sequence[int], pieces: Sequence[bytes]
    ) -> None:
        """`pieces` is the tokenizer's table: bytes by token id."""
        self._params = params
        self._pieces = pieces
        self._breakers = [breaker.encode() for breaker in params.dry_sequence_breakers]
        self._tail = b""
        self._num_since_break = 0
        window = params.dry_penalty_last_n
        prompt = prompt_token_ids[-window:] if window > 0 else prompt_token_ids
        self._tokens = np.array(prompt, dtype=np.int64)
        for token_id in prompt[-2 * MAX_REPEATED :]:
            self._look_for_break(token_id)
        self._repeated = _repeated(self._tokens)
        # As it was before the last token came.
        self._before_last: _DryState | None = None

    @staticmethod
    def of(params: SamplingParams, prompt_token_ids: Sequence[int], pieces: Sequence[bytes]) -> Dry | None:
        """None where the parameters ask for none."""
        if not params.dry_multiplier or not params.dry_penalty_last_n:
            return None
        return Dry(params, prompt_token_ids, pieces)

    def change(self, logits: NDArray[np.floating]) -> None:
        """Take the penalties from one row of logits (vocabulary,), in place."""
        allowed, num_tokens = self._params.dry_allowed_length, len(self._tokens)
        if num_tokens < 2 or self._num_since_break < allowed:
            return
        lengths = np.minimum(self._repeated[:-1], self._num_since_break)
        places = np.flatnonzero(lengths >= allowed)
        token_ids, inverse = np.unique(self._tokens[places + 1], return_inverse=True)
        longest = np.zeros(len(token_ids))
        np.maximum.at(longest, inverse, lengths[places])
        # A token that breaks the sequence does not prolong it.
        is_prolonging = [not self._holds_breaker(self._pieces[one]) for one in token_ids.tolist()]
        token_ids, longest = token_ids[is_prolonging], longest[is_prolonging]
        exponents = np.minimum((longest - allowed) * math.log(self._params.dry_base), MAX_EXPONENT)
        logits[token_ids] -= (self._params.dry_multiplier * np.exp(exponents)).astype(logits.dtype)

    def accept(self, token_id: int) -> None:
        """The token was generated."""
        self._before_last = _DryState(self._tokens, self._repeated, self._tail, self._num_since_break)
        self._look_for_break(token_id)
        before = np.concatenate([[0], self._repeated[:-1]])[: len(self._tokens)]
        grown = np.minimum(before + 1, MAX_REPEATED)
        repeated = np.where(self._tokens == token_id, grown, 0)
        self._tokens = np.append(self._tokens, token_id)
        self._repeated = np.append(repeated, 0)
        window = self._params.dry_penalty_last_n
        if 0 < window < len(self._tokens):
            self._tokens = self._tokens[1:]
            # What reached beyond the window is shorter now.
            self._repeated = np.minimum(self._repeated[1:], np.arange(1, window + 1))

    def insert(self, token_ids: Sequence[int]) -> None:
        """These came from elsewhere. One pass over the window, however many they are."""
        self._before_last = None
        for token_id in token_ids:
            self._look_for_break(token_id)
        self._tokens = np.concatenate([self._tokens, np.array(token_ids, dtype=np.int64)])
        window = self._params.dry_penalty_last_n
        if window > 0:
            self._tokens = self._tokens[-window:]
        self._repeated = _repeated(self._tokens)

    def take_back(self) -> None:
        """The token that was generated last is thrown away; only once for each."""
        if self._before_last is not None:
            self._tokens, self._repeated, self._tail, self._num_since_break = self._before_last
            self._before_last = None

    def _look_for_break(self, token_id: int) -> None:
        text = self._tail + self._pieces[token_id]
        has_break = self._holds_breaker(text)
        self._num_since_break = 0 if has_break else self._num_since_break + 1
        # A breaker may begin in one token and end in the next; found once, it is not found again.
        longest = max([len(breaker) for breaker in self._breakers], default=1)
        self._tail = b"" if has_break or longest == 1 else text[-(longest - 1) :]

    def _holds_breaker(self, text: bytes) -> bool:
        return any(breaker in text for breaker in self._breakers)


def _repeated(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each place, the length of the common end of the tokens up to it and of all tokens (the
    last place, which is all of them, has 0)."""
    repeated = np.zeros(len(tokens), dtype=np.int64)
    places = np.arange(len(tokens) - 1)
    for length in range(1, min(len(tokens), MAX_REPEATED + 1)):
        places = places[places >= length - 1]
        places = places[tokens[places - (length - 1)] == tokens[-length]]
        if not len(places):
            break
        repeated[places] = length
    return repeated
