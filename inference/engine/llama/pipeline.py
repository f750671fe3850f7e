"""Sampling in any order of stages, with those that are rarely asked for: one sequence at a time.

The usual stages in the usual order are drawn for a whole batch at once (sampling.py). Everything
else comes here: typical_p, top_n_sigma, XTC, dynamic temperature, DRY, mirostat, and orders of the
caller's own. Each stage is llama.cpp's (llama-sampler.cpp, named at each), in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage
from inference.engine.llama.candidates import (
    OUT_OF_RANGE,
    highest,
    max_fast_top_k,
    top_candidates,
    weighted_choice,
)
from inference.engine.llama.dry import Dry
from inference.engine.llama.mirostat import Mirostat
from inference.engine.llama.penalties import Penalties
from inference.engine.plan import NOTHING_DRAWN

IdArray = NDArray[np.int64]
LogitsArray = NDArray[np.float32]

# exp(gap / temperature) of the best token is 1 whatever the temperature; below this, float32 gaps
# of the others could overflow.
MIN_TEMPERATURE = 1e-6

# So many of the likeliest tokens are looked at before all are sorted.
NUM_TRIAL = 2048

# What changes logits by token id, and takes nothing away.
_CHANGES = (SamplerStage.PENALTIES, SamplerStage.DRY)


class Candidates:
    """The tokens that can still be drawn: `token_ids` and `logits` (float64), side by side."""

    __slots__ = ("is_sorted", "logits", "token_ids")

    def __init__(self, token_ids: IdArray, logits: NDArray[np.float64], *, is_sorted: bool) -> None:
        self.token_ids = token_ids
        self.logits = logits
        self.is_sorted = is_sorted

    @classmethod
    def of(cls, row: LogitsArray) -> Candidates:
        """All tokens that are not ruled out."""
        token_ids = np.flatnonzero(row > -math.inf)
        return cls(token_ids, row[token_ids].astype(np.float64), is_sorted=False)

    @classmethod
    def top(cls, row: LogitsArray, size: int) -> Candidates:
        """The `size` likeliest ones, without a look at the others."""
        values, token_ids = top_candidates(row[np.newaxis], np.array([size]))
        is_there = values[0] > -OUT_OF_RANGE
        return cls(token_ids[0][is_there], values[0][is_there], is_sorted=True)

    def __len__(self) -> int:
        return len(self.token_ids)

    def keep(self, which: NDArray[np.bool_] | IdArray | slice) -> None:
        self.token_ids, self.logits = self.token_ids[which], self.logits[which]

    def keep_highest(self, size: int) -> None:
        """The `size` likeliest ones, falling; equal ones by rising id."""
        if not self.is_sorted:
            self.keep(highest(self.logits, self.token_ids, size))
            self.is_sorted = True
        self.keep(slice(size))

    def shares(self) -> NDArray[np.float64]:
        """How likely each is among them; the sum is 1."""
        weights = np.exp(self.logits - self.logits.max())
        return np.asarray(weights / weights.sum())


class Pipeline:
    """The stages of one sequence, and the memory that some of them have."""

    def __init__(
        self,
        params: SamplingParams,
        stages: Sequence[SamplerStage],
        *,
        penalties: Penalties | None,
        dry: Dry | None,
    ) -> None:
        self._params = params
        self._changes: dict[SamplerStage, Penalties | Dry | None] = {
            SamplerStage.PENALTIES: penalties,
            SamplerStage.DRY: dry,
        }
        self._mirostat = Mirostat(params) if params.mirostat_mode else None
        # Changes that come first are made in the row itself.
        num_first = next((i for i, stage in enumerate(stages) if stage not in _CHANGES), len(stages))
        self._first, self._stages = stages[:num_first], stages[num_first:]
        self._apply = {
            SamplerStage.TOP_N_SIGMA: self._top_n_sigma,
            SamplerStage.TOP_K: self._top_k,
            SamplerStage.TYPICAL_P: self._typical_p,
            SamplerStage.TOP_P: self._top_p,
            SamplerStage.MIN_P: self._min_p,
        }

    def draw(self, row: LogitsArray, uniform: Callable[[], float]) -> int:
        """A token id, or NOTHING_DRAWN where `row` (vocabulary,) has no finite maximum. The row may
        be changed. `uniform` gives random numbers in [0, 1)."""
        for stage in self._first:
            self._change(stage, row)
        if not math.isfinite(row.max()):
            return NOTHING_DRAWN
        stages = self._stages
        if stages and stages[0] is SamplerStage.TOP_K and 0 < self._params.top_k <= max_fast_top_k(len(row)):
            candidates, stages = Candidates.top(row, self._params.top_k), stages[1:]
        else:
            candidates = Candidates.of(row)
        for stage in stages:
            if stage in _CHANGES:
                self._change_candidates(stage, candidates, len(row))
            elif stage is SamplerStage.XTC:
                self._xtc(candidates, uniform)
            elif stage is SamplerStage.TEMPERATURE:
                self._temperature(candidates)
            else:
                self._apply[stage](candidates)
        if self._mirostat is not None:
            index = self._mirostat.draw(
                candidates.logits, candidates.token_ids, uniform(), num_vocabulary=len(row)
            )
        else:
            weights = np.exp(candidates.logits - candidates.logits.max())
            index = weighted_choice(weights, uniform())
        return int(candidates.token_ids[index])

    def _change(self, stage: SamplerStage, row: LogitsArray) -> None:
        memory = self._changes[stage]
        if memory is not None:
            memory.change(row)

    def _change_candidates(self, stage: SamplerStage, candidates: Candidates, num_vocabulary: int) -> None:
        row = np.full(num_vocabulary, -math.inf, dtype=np.float32)
        row[candidates.token_ids] = candidates.logits
        self._change(stage, row)
        candidates.logits = row[candidates.token_ids].astype(np.float64)
        candidates.is_sorted = False

    def _top_n_sigma(self, candidates: Candidates) -> None:
        """Within n standard deviations of the best (llama_sampler_top_n_sigma_apply)."""
        reach = self._params.top_n_sigma * candidates.logits.std()
        candidates.keep(candidates.logits >= candidates.logits.max() - reach)

    def _top_k(self, candidates: Candidates) -> None:
        candidates.keep_highest(self._params.top_k)

    def _typical_p(self, candidates: Candidates) -> None:
        """Those whose surprise is nearest to the expected one (llama_sampler_typical_apply)."""
        shares = candidates.shares()
        surprises = math.log(np.exp(candidates.logits - candidates.logits.max()).sum()) - (
            candidates.logits - candidates.logits.max()
        )
        distances = np.abs(surprises - (shares * surprises).sum())
        for trial in (NUM_TRIAL, len(candidates)):
            order = highest(-distances, candidates.token_ids, trial)
            sums = shares[order].cumsum()
            if sums[-1] > self._params.typical_p:
                break
        size = int(np.searchsorted(sums, self._params.typical_p, side="right")) + 1
        candidates.keep(np.sort(order[:size]))

    def _top_p(self, candidates: Candidates) -> None:
        shares, top_p = candidates.shares(), self._params.top_p
        # The likeliest few are nearly always enough, and cheaper to find than to sort all.
        for trial in (NUM_TRIAL, len(candidates)):
            order = highest(candidates.logits, candidates.token_ids, trial)
            sums = shares[order].cumsum()
            if sums[-1] >= top_p:
                break
        candidates.keep(order[: int(np.searchsorted(sums, top_p)) + 1])
        candidates.is_sorted = True

    def _min_p(self, candidates: Candidates) -> None:
        candidates.keep(candidates.logits >= candidates.logits.max() + math.log(self._params.min_p))

    def _xtc(self, candidates: Candidates, uniform: Callable[[], float]) -> None:
        """Now and then, without all likely ones but the least likely (llama_sampler_xtc_apply)."""
        params = self._params
        if len(candidates) < 2 or uniform() >= params.xtc_probability:
            return
        likely = np.flatnonzero(candidates.shares() >= params.xtc_threshold)
        if len(likely) > 1:
            falling = highest(candidates.logits[likely], candidates.token_ids[likely], len(likely))
            stays = np.ones(len(candidates), dtype=np.bool_)
            stays[likely[falling[:-1]]] = False
            candidates.keep(stays)

    def _temperature(self, candidates: Candidates) -> None:
        """Fixed, or higher where the model is unsure (llama_sampler_temp_ext_apply)."""
        params, temperature = self._params, self._params.temperature
        if params.dynatemp_range > 0:
            if len(candidates) < 2:
                return
            lowest = max(temperature - params.dynatemp_range, 0.0)
            highest = temperature + params.dynatemp_range
            shares = candidates.shares()
            entropy = -float((shares * np.log(np.maximum(shares, 1e-300))).sum())
            doubt = min(max(entropy / math.log(len(candidates)), 0.0), 1.0)
            temperature = lowest + (highest - lowest) * doubt**params.dynatemp_exponent
        # Of a temperature of 0 and one that is as good as it, the best token is what is left.
        if temperature <= MIN_TEMPERATURE:
            candidates.keep(np.array([int(candidates.logits.argmax())]))
        else:
            candidates.logits = (candidates.logits - candidates.logits.max()) / temperature

    def accept(self, token_id: int) -> None:
        """The token was drawn."""
        for memory in self._changes.values():
            if memory is not None:
                memory.accept(token_id)

    def insert(self, token_ids: Sequence[int]) -> None:
        """These follow, which nobody drew."""
        for memory in self._changes.values():
            if memory is not None:
                memory.insert(token_ids)

    def take_back(self) -> None:
        """What was drawn last is thrown away."""
        for memory in self._changes.values():
            if memory is not None:
                memory.take_back()
        if self._mirostat is not None:
            self._mirostat.take_back()
