"""In which order should a user's waiting requests start? Those that cost least, but age counts, too.

What the prefix cache has need not be computed, so a request is the cheaper the more of its prompt is
there. Waiting is worth something as well: each turn that others take counts like 4,096 units of saved
work, which is 128 tokens of a prompt for a model of 32 layers. Where that leaves several level, those
whose prompts begin alike go together, before what they share is evicted again; so that this can
happen at all, age counts in bands of four turns first, and exactly only afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from inference.admission.families import SortedPrompts, family_ranks
from inference.admission.waiter import Waiter
from inference.domain.cache_affinity import CacheAffinity

AGEING_PER_TURN = 4096
BAND_TURNS = 4
# The unit of cost is one token in one layer of a model of 32 layers.
COST_PER_TOKEN = 32


@dataclass(frozen=True, slots=True)
class Candidate:
    """`saved_cost` is what the cache spares it, `age_turns` how many others went before it since it
    came, `family_rank` its place among those that begin alike (equal for equal prompts)."""

    saved_cost: int
    age_turns: int
    family_rank: int
    order: int


def ranking_key(candidate: Candidate, *, ageing: int = AGEING_PER_TURN) -> tuple[int, int, int, int]:
    """The smallest key goes first."""
    num_bands = -(-candidate.age_turns // BAND_TURNS)
    banded = candidate.saved_cost + num_bands * BAND_TURNS * max(ageing, 1)
    exact = candidate.saved_cost + candidate.age_turns * ageing
    return -banded, candidate.family_rank, -exact, candidate.order


def rank_waiters(prompts: SortedPrompts, *, ages: Sequence[int], affinity: CacheAffinity) -> list[Waiter]:
    """The waiters in the order in which they should start; `ages` (in turns) are in the order of
    `prompts`."""
    ranks = family_ranks(prompts)
    keys = {
        waiter: ranking_key(Candidate(saved * COST_PER_TOKEN, age, ranks[waiter], waiter.order))
        for waiter, age, saved in zip(prompts.waiters, ages, _saved_tokens(prompts, affinity), strict=True)
    }
    return sorted(prompts.waiters, key=keys.__getitem__)


def _saved_tokens(prompts: SortedPrompts, affinity: CacheAffinity) -> list[int]:
    """What the cache has of each prompt. Those of one namespace stand together."""
    saved: list[int] = []
    for namespace, members in groupby(prompts.waiters, key=lambda waiter: waiter.namespace):
        arrays = [waiter.tokens for waiter in members]
        num_shared = prompts.num_shared[len(saved) : len(saved) + len(arrays)]
        saved += affinity.matched_tokens(namespace=namespace, prompts=arrays, num_shared=num_shared)
    return saved
