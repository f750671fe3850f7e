"""Making tokens less likely that were there already, at a cost that does not grow with the vocabulary."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from inference.domain.requests import SamplingParams

LogitsArray = NDArray[np.float32]
IdArray = NDArray[np.int64]


class TokenCounts:
    """How often each token occurred, as two arrays that a row of logits can be indexed with."""

    __slots__ = ("_counts", "_slots", "_token_ids")

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._token_ids = np.zeros(16, dtype=np.int64)
        self._counts = np.zeros(16, dtype=np.float32)

    def add(self, token_id: int, times: int = 1) -> None:
        """`times` may be negative: the token left the window."""
        slot = self._slots.get(token_id)
        if slot is None:
            slot = self._slots[token_id] = len(self._slots)
            if slot == len(self._token_ids):
                self._token_ids = np.concatenate([self._token_ids, np.zeros_like(self._token_ids)])
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self._token_ids[slot] = token_id
        self._counts[slot] += times

    @property
    def token_ids(self) -> IdArray:
        """Every token that ever occurred, once."""
        return self._token_ids[: len(self._slots)]

    @property
    def counts(self) -> NDArray[np.float32]:
        """For each of `token_ids`; 0 where it left the window."""
        return self._counts[: len(self._slots)]


class Penalties:
    """Repeat, frequency and presence penalty of one sequence (SamplingParams says what they see).

    As llama.cpp's (llama-sampler.cpp, llama_sampler_penalties_apply), but that frequency and
    presence penalty do not see the prompt.
    """

    __slots__ = ("_generated", "_last", "_last_gone", "_params", "_seen", "_window")

    def __init__(self, params: SamplingParams, prompt_token_ids: tuple[int, ...]) -> None:
        self._params = params
        self._generated = TokenCounts() if params.frequency_penalty or params.presence_penalty else None
        self._seen = TokenCounts() if params.repeat_penalty != 1 else None
        # The last tokens, and whether each was generated; None: all of them, none ever leaves.
        self._window: deque[tuple[int, bool]] | None = None if params.repeat_last_n < 0 else deque()
        # What came last, and what left the window for it.
        self._last: tuple[int, bool] | None = None
        self._last_gone: tuple[int, bool] | None = None
        prompt = prompt_token_ids
        if self._window is not None:
            prompt = prompt[-params.repeat_last_n :]
            self._window.extend((token_id, False) for token_id in prompt)
        if self._seen is not None:
            for token_id in prompt:
                self._seen.add(token_id)

    @staticmethod
    def of(params: SamplingParams, prompt_token_ids: tuple[int, ...]) -> Penalties | None:
        """None where the parameters ask for none."""
        is_asked = params.frequency_penalty or params.presence_penalty or params.repeat_penalty != 1
        return Penalties(params, prompt_token_ids) if is_asked and params.repeat_last_n else None

    def change(self, logits: LogitsArray) -> None:
        """Apply them in place to one row of logits (vocabulary,)."""
        if self._seen is not None:
            token_ids, factor = self._seen.token_ids, self._params.repeat_penalty
            values = logits[token_ids]
            factors = np.where(values > 0, np.float32(1 / factor), np.float32(factor))
            logits[token_ids] = np.where(self._seen.counts > 0, values * factors, values)
        if self._generated is not None:
            counts = self._generated.counts
            presence = (counts > 0) * np.float32(self._params.presence_penalty)
            logits[self._generated.token_ids] -= counts * self._params.frequency_penalty + presence

    def accept(self, token_id: int) -> None:
        """The token was generated."""
        self._follow(token_id, was_generated=True)

    def insert(self, token_ids: Iterable[int]) -> None:
        """These came from elsewhere, as a prompt does."""
        for token_id in token_ids:
            self._follow(token_id, was_generated=False)

    def take_back(self) -> None:
        """The token that was generated last is thrown away; only once for each."""
        if self._last is None:
            return
        self._add(self._last[0], -1, was_generated=self._last[1])
        if self._window is not None:
            self._window.pop()
            if self._last_gone is not None:
                self._window.appendleft(self._last_gone)
                self._add(self._last_gone[0], 1, was_generated=self._last_gone[1])
        self._last = self._last_gone = None

    def _follow(self, token_id: int, *, was_generated: bool) -> None:
        self._last, self._last_gone = (token_id, was_generated), None
        self._add(token_id, 1, was_generated=was_generated)
        if self._window is not None:
            self._window.append(self._last)
            if len(self._window) > self._params.repeat_last_n:
                self._last_gone = self._window.popleft()
                self._add(self._last_gone[0], -1, was_generated=self._last_gone[1])

    def _add(self, token_id: int, times: int, *, was_generated: bool) -> None:
        if self._seen is not None:
            self._seen.add(token_id, times)
        if self._generated is not None and was_generated:
            self._generated.add(token_id, times)
