"""Drawing the next token: one random state for each sequence, one pass over the batch for all.

llama.cpp's sampler chains take one sequence at a time and copy or sort the whole vocabulary. Measured
with 49,152 tokens on one core, µs a token, chain against numpy over a batch of 16:

    top_k 40, top_p 0.95, min_p 0.05     48      25
    nothing but a temperature           500     150
    top_p 0.95 without top_k          4,900     300
    the most likely token               115       5

So it is done here: it needs no native state, and what may be drawn is exactly the same. (For a
single sequence with top_k the chain would be faster, 48 against 80: too little for two ways.)

The order is llama.cpp's (common/common.h): bias, penalties, top_k, top_p, min_p, temperature. A
temperature of 0 takes the most likely token, the lowest id where several are. Other orders and
rarer stages are pipeline.py's.

Under a constraint a token is drawn as without one and mostly allowed, which is all it costs. Only where
it is refused, the tokens that may come are asked for and one of them is drawn (as llama.cpp does it:
without stages that take tokens away, the two draws together have the masked distribution).
"""

from __future__ import annotations

import logging
import math
import random
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.domain.constraint import ConstraintState
from inference.domain.requests import SamplingParams
from inference.engine.llama.candidates import (
    OUT_OF_RANGE,
    max_fast_top_k,
    nucleus_cut,
    top_candidates,
    top_of_row,
    weighted_choice,
)
from inference.engine.llama.dry import Dry
from inference.engine.llama.penalties import Penalties
from inference.engine.llama.pipeline import MIN_TEMPERATURE, Pipeline
from inference.engine.llama.stage_plan import plan_stages
from inference.engine.plan import NOTHING_DRAWN

logger = logging.getLogger(__name__)

LogitsArray = NDArray[np.float32]
IdArray = NDArray[np.int64]


class Sampler:
    """How one sequence draws its tokens: parameters, random state, what it has seen so far.

    `pieces` is the tokenizer's table (bytes by token id). `banned_token_ids` are not drawn among the
    first `num_banned_draws` tokens; None: never. What `constraint` forbids is never drawn.
    """

    __slots__ = (
        "_banned_token_ids",
        "_bias_token_ids",
        "_biases",
        "_num_banned_draws",
        "_penalties",
        "_pipeline",
        "_random",
        "banned",
        "changes_logits",
        "constraint",
        "has_memory",
        "limits",
        "params",
    )

    def __init__(
        self,
        params: SamplingParams,
        *,
        prompt_token_ids: tuple[int, ...] = (),
        pieces: Sequence[bytes] = (),
        banned_token_ids: IdArray | None = None,
        num_banned_draws: int | None = None,
        constraint: ConstraintState | None = None,
    ) -> None:
        params, stages = plan_stages(params)
        self.params = params
        self.constraint = constraint
        # As a row of numbers: top_k, top_p, the logarithm of min_p, temperature.
        temperature = max(params.temperature, MIN_TEMPERATURE)
        self.limits = (float(params.top_k), params.top_p, _log(params.min_p), temperature)
        self._bias_token_ids = np.array([token_id for token_id, _ in params.logit_bias], dtype=np.int64)
        self._biases = np.array([bias for _, bias in params.logit_bias], dtype=np.float32)
        penalties = Penalties.of(params, prompt_token_ids)
        self._penalties = penalties if stages is None else None
        self._pipeline: Pipeline | None = None
        if stages is not None:
            dry = Dry.of(params, prompt_token_ids, pieces)
            self._pipeline = Pipeline(params, stages, penalties=penalties, dry=dry)
        # Tokens that may not be drawn now, or None.
        self.banned = self._banned_token_ids = banned_token_ids
        self._num_banned_draws = math.inf if num_banned_draws is None else num_banned_draws
        # Most sequences need none of this, and are not asked.
        self.changes_logits = bool(params.logit_bias) or self._penalties is not None
        self.has_memory = (
            penalties is not None
            or self._pipeline is not None
            or (banned_token_ids is not None and num_banned_draws is not None)
        )
        # Without a seed, from the system's randomness; 0 is a seed like any other.
        self._random = random.Random(params.seed)  # noqa: S311  tokens are no secrets

    def change(self, logits: LogitsArray) -> None:
        """Apply bias and penalties in place to one row of logits. Needed only where `changes_logits`."""
        if len(self._biases):
            logits[self._bias_token_ids] += self._biases
        if self._penalties is not None:
            self._penalties.change(logits)

    @property
    def pipeline(self) -> Pipeline | None:
        """How its tokens are drawn where the fast ways below do not suffice."""
        return self._pipeline

    def uniform(self) -> float:
        """The next random number in [0, 1); a drawn token takes one (two with XTC)."""
        return self._random.random()

    def accept(self, token_id: int) -> None:
        """The token was drawn. Needed only where `has_memory`."""
        if self._penalties is not None:
            self._penalties.accept(token_id)
        if self._pipeline is not None:
            self._pipeline.accept(token_id)
        self._num_banned_draws -= 1
        if self._num_banned_draws <= 0:
            self.banned = None

    def take_back(self) -> None:
        """What was drawn last is thrown away: as if it had not been, but for the random state. Once only."""
        if not self.has_memory:
            return
        if self._penalties is not None:
            self._penalties.take_back()
        if self._pipeline is not None:
            self._pipeline.take_back()
        self._num_banned_draws += 1
        if self._num_banned_draws > 0:
            self.banned = self._banned_token_ids

    def insert(self, token_ids: tuple[int, ...]) -> None:
        """These follow, which nobody drew: repeat penalty and DRY know them, as they know a prompt."""
        if self._penalties is not None:
            self._penalties.insert(token_ids)
        if self._pipeline is not None:
            self._pipeline.insert(token_ids)


def draw_tokens(logits: LogitsArray, samplers: Sequence[Sampler]) -> list[int]:
    """One token id for each row of `logits` (rows, vocabulary); NOTHING_DRAWN where a row has no
    finite maximum, or its constraint failed. Rows may be changed in place."""
    greedy: list[int] = []
    narrow: list[int] = []
    tokens = [NOTHING_DRAWN] * len(samplers)
    fast_limit = max_fast_top_k(logits.shape[1])
    _change_rows(logits, samplers)
    for row, sampler in enumerate(samplers):
        params = sampler.params
        if sampler.pipeline is not None:
            tokens[row] = _draw_by_stages(logits[row], sampler, sampler.pipeline)
        elif params.temperature <= 0:
            greedy.append(row)
        elif 0 < params.top_k <= fast_limit:
            narrow.append(row)
        else:
            tokens[row] = _draw_wide(logits[row], sampler)
    if greedy:
        _fill(tokens, greedy, _draw_greedy(_rows(logits, greedy)))
    if len(narrow) > MAX_ONE_BY_ONE:
        _fill(tokens, narrow, _draw_narrow(_rows(logits, narrow), [samplers[row] for row in narrow]))
    else:
        for row in narrow:
            tokens[row] = _draw_narrow_row(logits[row], samplers[row])
    for row, sampler in enumerate(samplers):
        if sampler.constraint is not None:
            tokens[row] = _constrain(logits[row], sampler, sampler.constraint, tokens[row])
        if sampler.has_memory and tokens[row] != NOTHING_DRAWN:
            sampler.accept(tokens[row])
    return tokens


def _draw_by_stages(logits: LogitsArray, sampler: Sampler, pipeline: Pipeline) -> int:
    """One row; it and the state of the stages change with it. So it is drawn once, of what may come."""
    if sampler.constraint is not None:
        only = _mask(logits, sampler.constraint)
        if only is not None:
            return only
    return pipeline.draw(logits, sampler.uniform)


def _constrain(logits: LogitsArray, sampler: Sampler, constraint: ConstraintState, token_id: int) -> int:
    """The token that its constraint takes: the one that was drawn, or another one."""
    try:
        if token_id == NOTHING_DRAWN:
            return NOTHING_DRAWN
        if not constraint.accepts(token_id):
            only = _mask(logits, constraint)
            token_id = _draw_one(logits, sampler) if only is None else only
        if token_id != NOTHING_DRAWN:
            constraint.advance(token_id)
        return token_id
    except BaseException as problem:  # a panic of the native library is no Exception
        logger.warning("a constraint failed: %s", type(problem).__name__)
        return NOTHING_DRAWN


def take_forced(sampler: Sampler, max_tokens: int, end_token_ids: frozenset[int]) -> tuple[int, ...] | None:
    """Up to `max_tokens` tokens that alone can follow what was drawn: taken, as if they had been drawn.
    None where the constraint failed."""
    constraint = sampler.constraint
    if constraint is None:
        return ()
    taken: list[int] = []
    try:
        for token_id in constraint.forced_tokens(max_tokens):
            if token_id in end_token_ids:
                break
            constraint.advance(token_id)
            taken.append(token_id)
            if sampler.has_memory:
                sampler.accept(token_id)
    except BaseException as problem:
        logger.warning("a constraint failed: %s", type(problem).__name__)
        return None
    return tuple(taken)


def _mask(logits: LogitsArray, constraint: ConstraintState) -> int | None:
    """Rule out what may not come. Where drawing would be idle, what to take instead: an end of the answer,
    which the request may have put off, or NOTHING_DRAWN where the constraint failed."""
    try:
        mask = constraint.mask()
        if constraint.is_ended:
            return int(mask.argmax())
        logits[~mask] = -math.inf
    except BaseException as problem:
        logger.warning("a constraint failed: %s", type(problem).__name__)
        return NOTHING_DRAWN
    return None


def _draw_one(logits: LogitsArray, sampler: Sampler) -> int:
    """One row again, by the fast way that it was drawn by before."""
    if sampler.params.temperature <= 0:
        return _draw_greedy(logits[np.newaxis])[0]
    if 0 < sampler.params.top_k <= max_fast_top_k(len(logits)):
        return _draw_narrow_row(logits, sampler)
    return _draw_wide(logits, sampler)


def _change_rows(logits: LogitsArray, samplers: Sequence[Sampler]) -> None:
    """Bias and penalties by row; what may not be drawn, in one go for all that share it."""
    banned_rows: list[int] = []
    banned: IdArray | None = None
    for row, sampler in enumerate(samplers):
        if sampler.changes_logits:
            sampler.change(logits[row])
        if sampler.banned is not None:
            # All sequences of a model ban the same tokens: those that end an answer.
            banned = sampler.banned
            banned_rows.append(row)
    if banned is None:
        return
    if len(banned_rows) < len(logits):
        logits[np.array(banned_rows)[:, np.newaxis], banned] = -math.inf
    else:
        for token_id in banned.tolist():
            logits[:, token_id] = -math.inf


def _rows(logits: LogitsArray, rows: list[int]) -> LogitsArray:
    """The wanted rows: a view where it is all of them, the usual case, else a copy."""
    return logits if len(rows) == len(logits) else logits[rows]


def _fill(tokens: list[int], rows: list[int], drawn: list[int]) -> None:
    for row, token_id in zip(rows, drawn, strict=True):
        tokens[row] = token_id


def _draw_greedy(logits: LogitsArray) -> list[int]:
    drawn: list[int] = logits.argmax(axis=1).tolist()
    # argmax stops at a NaN, so the value found is the maximum, or tells that there is none.
    return [
        token_id if math.isfinite(logits.item(row, token_id)) else NOTHING_DRAWN
        for row, token_id in enumerate(drawn)
    ]


def _draw_narrow_row(logits: LogitsArray, sampler: Sampler) -> int:
    """One row with a small top_k; draws what `_draw_narrow` would, in plain numbers: for one to four
    rows that is quicker than some twenty operations on a matrix."""
    _, top_p, log_min_p, temperature = sampler.limits
    values, token_ids = top_of_row(logits, sampler.params.top_k)
    uniform = sampler.uniform()
    if not values or not abs(values[0]) < OUT_OF_RANGE:
        return NOTHING_DRAWN
    highest = values[0]
    masses = [math.exp(value - highest) for value in values]
    mass_limit = top_p * sum(masses)
    sums: list[float] = []
    mass = total = 0.0
    for value, own_mass in zip(values, masses, strict=True):
        gap = value - highest
        if sums and (mass >= mass_limit or gap < log_min_p):
            break
        mass += own_mass
        total += math.exp(gap / temperature)
        sums.append(total)
    return token_ids[bisect_right(sums, uniform * (total * ALMOST_ONE))]


def _draw_narrow(logits: LogitsArray, samplers: list[Sampler]) -> list[int]:
    """Rows with a small top_k, all at once: cut to candidates, then a few operations on a matrix."""
    limits = np.array([sampler.limits for sampler in samplers])
    values, token_ids = top_candidates(logits, limits[:, 0].astype(np.int64))
    top_ps, log_min_ps, temperatures = limits[:, 1:2], limits[:, 2:3], limits[:, 3:4]
    gaps = values - values[:, :1]
    masses = np.exp(gaps)
    sums = masses.cumsum(axis=1)
    # What may be drawn is the beginning of a row: as long as what is before it lacks top_p …
    is_kept = sums - masses < top_ps * sums[:, -1:]
    # … and it is not below min_p; but whatever the limits say, the best token can be drawn.
    is_kept &= gaps >= log_min_ps
    is_kept[:, 0] = True
    sums = (np.exp(gaps / temperatures) * is_kept).cumsum(axis=1)
    # Less than the whole sum, also after rounding, so that nothing beyond is drawn.
    targets = np.array([sampler.uniform() for sampler in samplers]) * (sums[:, -1] * ALMOST_ONE)
    picked = (sums <= targets[:, np.newaxis]).sum(axis=1)
    drawn = token_ids[np.arange(len(picked)), picked]
    is_number = np.abs(values[:, 0]) < OUT_OF_RANGE
    result: list[int] = np.where(is_number, drawn, NOTHING_DRAWN).tolist()
    return result


ALMOST_ONE = 1 - 1e-15
# Up to so many rows with a small top_k are drawn one by one.
MAX_ONE_BY_ONE = 4


def _draw_wide(logits: LogitsArray, sampler: Sampler) -> int:
    """One row without a small top_k. What may be drawn are the highest so-and-so many, so a lowest
    gap and a number say all, and nothing need be sorted to draw from it."""
    params = sampler.params
    highest = float(logits.max())
    if not math.isfinite(highest):
        return NOTHING_DRAWN
    gaps = logits - np.float32(highest)
    cut, size = -math.inf, len(gaps)
    if 0 < params.top_k < size:
        size = params.top_k
        cut = float(np.partition(gaps, len(gaps) - size)[len(gaps) - size])
    if params.top_p < 1:
        in_reach = gaps if cut == -math.inf else gaps[gaps >= cut]
        mass = params.top_p * float(np.exp(in_reach).sum(dtype=np.float64))
        if params.min_p > 0:
            in_reach = gaps[gaps >= max(cut, sampler.limits[2])]
        cut, size = nucleus_cut(in_reach, mass)
    if params.min_p > 0:
        cut = max(cut, sampler.limits[2])
    temperature = np.float32(sampler.limits[3])
    if cut == -math.inf:
        gaps /= temperature
        return weighted_choice(np.exp(gaps, out=gaps), sampler.uniform())
    chosen = np.flatnonzero(gaps >= np.float32(cut))
    if len(chosen) > size:
        # Equal ones at the end: those with the lowest ids are in.
        surplus = np.flatnonzero(gaps[chosen] == np.float32(cut))[size - len(chosen) :]
        chosen = np.delete(chosen, surplus)
    return int(chosen[weighted_choice(np.exp(gaps[chosen] / temperature), sampler.uniform())])


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
