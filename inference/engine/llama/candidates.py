"""Finding the few tokens that can be drawn among all that cannot, without sorting the vocabulary."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IdArray = NDArray[np.int64]

# Maxima are taken over this many strided logits, and then over this many of the maxima. Twelve
# passes of long vectors run at the speed of memory; more would make more false candidates.
GROUP = 12
SUPERGROUP = 16
# Above every logit, and their negatives below: stands for "none" where an infinity would turn
# differences into NaN.
OUT_OF_RANGE = 2.0**100
# Sums are kept for this many parts of the vocabulary, so that a choice reads one part only.
NUM_PARTS = 256


def max_fast_top_k(num_tokens: int) -> int:
    """Up to this top_k, `top_candidates` looks at maxima of groups instead of at everything."""
    return num_tokens // (2 * GROUP * SUPERGROUP)


def top_candidates(logits: FloatArray, top_ks: IdArray) -> tuple[NDArray[np.float64], IdArray]:
    """The `top_ks[i]` highest of each row i, falling (equal ones by rising id), and their ids.

    Both are (rows, highest of top_ks); shorter rows are padded with -OUT_OF_RANGE and id 0, and
    values are cut to ±OUT_OF_RANGE. A row that holds NaN may come out empty.

    The k-th highest of some maxima over disjoint groups is a lower bound of the k-th highest
    logit: k groups have one at least as high. Only groups whose maximum reaches it are looked into.
    """
    num_rows, num_tokens = logits.shape
    largest = int(top_ks.max())
    num_groups = num_tokens // GROUP
    num_supers = num_groups // SUPERGROUP
    num_grouped = num_groups * GROUP
    if largest > max_fast_top_k(num_tokens):
        return _sorted_rows(logits, top_ks, *_all_of(logits, largest))
    grouped = logits[:, :num_grouped].reshape(num_rows, GROUP, num_groups)
    maxima = grouped.max(axis=1)
    supers = maxima[:, : num_supers * SUPERGROUP].reshape(num_rows, SUPERGROUP, num_supers).max(axis=1)
    limits = np.partition(supers, num_supers - largest, axis=1)[:, num_supers - largest]
    found = np.flatnonzero(maxima >= limits[:, np.newaxis])
    rows = found // num_groups
    # From a group's number to the flat places of its logits.
    first = found + rows * (num_tokens - num_groups)
    places = (first + np.arange(GROUP)[:, np.newaxis] * num_groups).ravel()
    if num_grouped < num_tokens:
        ends = np.arange(num_grouped, num_tokens) + np.arange(num_rows)[:, np.newaxis] * num_tokens
        places = np.concatenate([places, ends.ravel()])
    rows = places // num_tokens
    values = logits.ravel()[places] if logits.flags.c_contiguous else logits[rows, places % num_tokens]
    is_high = np.flatnonzero(values >= limits[rows])
    return _sorted_rows(logits, top_ks, rows[is_high], places[is_high], values[is_high])


def top_of_row(row: FloatArray, top_k: int) -> tuple[list[float], list[int]]:
    """As `top_candidates` for one row (vocabulary,), with a `top_k` up to `max_fast_top_k`; both empty
    where it holds NaN.

    After a batch, with all caches cold, a call of numpy costs 2 to 4 µs however little it does. So a
    single row takes as few of them as can be.
    """
    num_tokens = len(row)
    num_groups = num_tokens // GROUP
    num_supers = num_groups // SUPERGROUP
    num_grouped = num_groups * GROUP
    grouped = row[:num_grouped].reshape(GROUP, num_groups)
    maxima = np.maximum.reduce(grouped, axis=0)
    supers = np.maximum.reduce(maxima[: num_supers * SUPERGROUP].reshape(SUPERGROUP, num_supers), axis=0)
    supers.partition(num_supers - top_k)
    limit = supers[num_supers - top_k]
    groups = (maxima >= limit).nonzero()[0]
    inside = grouped[:, groups].ravel()
    found = (inside >= limit).nonzero()[0]
    values = inside[found]
    # Places in `inside` rise as ids do, so a stable sort leaves equal ones in the order of their ids.
    places = found // len(groups) * num_groups + groups[found % len(groups)]
    if num_grouped < num_tokens:
        ends = (row[num_grouped:] >= limit).nonzero()[0] + num_grouped
        values = np.concatenate([values, row[ends]])
        places = np.concatenate([places, ends])
    order = (-values).argsort(kind="stable")[:top_k]
    return values[order].tolist(), places[order].tolist()


def _all_of(logits: FloatArray, largest: int) -> tuple[IdArray, IdArray, FloatArray]:
    """Rows, flat places and values of everything that could be among the `largest` highest."""
    num_rows, num_tokens = logits.shape
    limits = np.full(num_rows, -math.inf, dtype=np.float32)
    if largest < num_tokens:
        limits = np.partition(logits, num_tokens - largest, axis=1)[:, num_tokens - largest]
    places = np.flatnonzero(logits >= limits[:, np.newaxis])
    rows = places // num_tokens
    return rows, places, logits[rows, places % num_tokens]


def _sorted_rows(
    logits: FloatArray, top_ks: IdArray, rows: IdArray, places: IdArray, values: FloatArray
) -> tuple[NDArray[np.float64], IdArray]:
    num_rows, num_tokens = logits.shape
    width = min(int(top_ks.max()), num_tokens)
    if num_rows == 1 and len(values) >= width:
        order = np.lexsort((places, -values))[:width]
        bounded = np.clip(values[order], -OUT_OF_RANGE, OUT_OF_RANGE).astype(np.float64)
        return bounded[np.newaxis], places[order][np.newaxis]
    order = np.lexsort((places, -values, rows))
    rows, places, values = rows[order], places[order], values[order]
    counts = np.bincount(rows, minlength=num_rows)
    ranks = np.arange(len(rows)) - (counts.cumsum() - counts)[rows]
    is_top = ranks < top_ks[rows]
    rows, ranks = rows[is_top], ranks[is_top]
    sorted_values = np.full((num_rows, width), -OUT_OF_RANGE)
    token_ids = np.zeros((num_rows, width), dtype=np.int64)
    sorted_values[rows, ranks] = np.clip(values[is_top], -OUT_OF_RANGE, OUT_OF_RANGE)
    token_ids[rows, ranks] = places[is_top] - rows * num_tokens
    return sorted_values, token_ids


def nucleus_cut(gaps: FloatArray, mass: float) -> tuple[float, int]:
    """The smallest set of most likely tokens whose exp(gap) together reach `mass`: the gap of its
    last member and its size. Everything, where all of them do not reach it.

    `gaps` are logits minus the highest of them.
    """
    trial = max_fast_top_k(len(gaps))
    if trial > 0:
        # Nearly always enough.
        falling = top_candidates(gaps[np.newaxis], np.array([trial]))[0][0]
        sums = np.exp(falling).cumsum()
        if sums[-1] >= mass:
            last = int(np.searchsorted(sums, mass))
            return float(falling[last]), last + 1
    everything = np.sort(gaps)[::-1]
    sums = np.exp(everything).cumsum(dtype=np.float64)
    last = min(int(np.searchsorted(sums, mass)), len(everything) - 1)
    return float(everything[last]), last + 1


def weighted_choice(weights: FloatArray, uniform: float) -> int:
    """The index at which the running sum of `weights` passes `uniform` · their sum."""
    size = -(-len(weights) // NUM_PARTS)
    begins = np.arange(0, len(weights), size)
    sums = np.add.reduceat(weights, begins, dtype=np.float64).cumsum()
    target = uniform * sums[-1]
    part = min(int(np.searchsorted(sums, target, side="right")), len(begins) - 1)
    inside = weights[begins[part] : begins[part] + size].cumsum(dtype=np.float64)
    inside += sums[part - 1] if part else 0.0
    index = int(np.searchsorted(inside, target, side="right"))
    # The two ways of adding up may differ in the last bit: stay within the part.
    if index == len(inside):
        index = int(np.flatnonzero(weights[begins[part] : begins[part] + size])[-1])
    return int(begins[part]) + index


def highest(values: NDArray[np.float64], token_ids: IdArray, size: int) -> IdArray:
    """Indexes of the `size` highest of `values` (all, where there are fewer), falling; equal ones by
    rising id."""
    if size >= len(values):
        return np.lexsort((token_ids, -values))
    cut = np.partition(values, len(values) - size)[len(values) - size]
    found = np.flatnonzero(values >= cut)
    return found[np.lexsort((token_ids[found], -values[found]))][:size]
