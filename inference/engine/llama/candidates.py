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
    if largest > max_fast_top_k(num_tokens):
        return _sorted_rows(logits, top_ks, *_all_of(logits, largest))
    num_groups = num_tokens // GROUP
    num_supers = num_groups // SUPERGROUP
    num_grouped = num_groups * GROUP
    grouped = logits[:, :num_grouped].reshape(num_rows, GROUP, num_groups)
    maxima = np.maximum.reduce(grouped, axis=1)
    supers = maxima[:, : num_supers * SUPERGROUP].reshape(num_rows, SUPERGROUP, num_supers)
    supers = np.maximum.reduce(supers, axis=1)
    supers.partition(num_supers - largest, axis=1)
    limits = supers[:, num_supers - largest]
    found = (maxima >= limits[:, np.newaxis]).ravel().nonzero()[0]
    rows = found // num_groups
    # From a group's number to the flat places of its logits: (groups, GROUP), by rising row.
    first = found + rows * (num_tokens - num_groups)
    places = first[:, np.newaxis] + np.arange(GROUP) * num_groups
    values = logits.ravel().take(places)
    is_high = (values >= limits[rows][:, np.newaxis]).ravel().nonzero()[0]
    rows, places, values = rows[is_high // GROUP], places.ravel()[is_high], values.ravel()[is_high]
    if num_grouped < num_tokens:
        ends = logits[:, num_grouped:]
        end_rows, end_ranks = (ends >= limits[:, np.newaxis]).nonzero()
        end_places = end_rows * num_tokens + num_grouped + end_ranks
        rows = np.concatenate([rows, end_rows])
        order = rows.argsort(kind="stable")
        rows = rows[order]
        places = np.concatenate([places, end_places])[order]
        values = np.concatenate([values, ends[end_rows, end_ranks]])[order]
    return _sorted_rows(logits, top_ks, rows, places, values)


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
    """Rows (rising), flat places and values of everything that could be among the `largest` highest."""
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
    """Candidates, by rising row, to sorted rows that are padded and cut to their `top_ks`.

    A value and its id become one integer whose order is that of (value, falling id): the bits of a
    float32, with those of negative ones turned over, rise with it. So one sort of a small matrix
    takes the place of sorting three lists, which took most of the time.
    """
    num_rows, num_tokens = logits.shape
    width = min(int(top_ks.max()), num_tokens)
    # One zero only: -0.0 is as high as 0.0, but has other bits.
    bits = (values + np.float32(0)).view(np.int32)
    keys = (bits ^ ((bits >> 31) & _ALL_BUT_SIGN)).astype(np.int64) << 32
    keys += _LAST_ID - (places - rows * num_tokens)
    counts = np.bincount(rows, minlength=num_rows)
    ranks = np.arange(len(rows)) - (counts.cumsum() - counts)[rows]
    table = np.full((num_rows, max(int(counts.max(initial=0)), width)), _LOWEST_KEY)
    table[rows, ranks] = keys
    table.sort(axis=1)
    best = table[:, : -width - 1 : -1]
    is_there = (best != _LOWEST_KEY) & (np.arange(width) < top_ks[:, np.newaxis])
    token_ids = np.where(is_there, _LAST_ID - (best & _LAST_ID), 0)
    found = logits[np.arange(num_rows)[:, np.newaxis], token_ids].astype(np.float64)
    sorted_values = np.where(is_there, np.clip(found, -OUT_OF_RANGE, OUT_OF_RANGE), -OUT_OF_RANGE)
    return sorted_values, token_ids


_ALL_BUT_SIGN = np.int32(0x7FFFFFFF)
_LAST_ID = 0xFFFFFFFF
_LOWEST_KEY = np.iinfo(np.int64).min


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
