"""Which waiting prompts begin alike? Kept sorted, so that an election does not read them again.

Prompts that share a beginning should follow each other into the engine: the second finds what the
first has computed. A radix tree over them says who belongs together. In a sorted list the same tree
is there without nodes: neighbours share the most, and how much each shares with the one before it is
all that the shape needs. A newcomer finds its place with a few comparisons of bytes, and only its two
neighbours are compared token by token; an election walks over the numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from inference.admission.waiter import TokenArray, Waiter


def num_common(one: TokenArray, other: TokenArray) -> int:
    """Length of the common beginning."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    first = int(np.argmax(differs)) if length else 0
    return first if length and differs[first] else length


def _num_shared(one: Waiter, other: Waiter) -> int:
    """Tokens whose cells both could use: none across namespaces."""
    if one.namespace != other.namespace:
        return 0
    return num_common(one.tokens, other.tokens)


@dataclass(frozen=True, slots=True)
class SortedPrompts:
    """Waiters in the order of their tokens. `num_shared[i]` tokens are those that waiter i begins with
    as the one before it does; 0 for the first."""

    waiters: tuple[Waiter, ...]
    num_shared: tuple[int, ...]


class PromptFamilies:
    """The waiters of one user. Not thread-safe by itself: the controller's mutex guards it."""

    def __init__(self) -> None:
        self._waiters: list[Waiter] = []
        self._keys: list[tuple[str, bytes, int]] = []
        self._num_shared: list[int] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: Waiter) -> None:
        key = waiter.sort_key
        at = bisect_left(self._keys, key)
        before = _num_shared(self._waiters[at - 1], waiter) if at else 0
        if at < len(self._waiters):
            self._num_shared[at] = _num_shared(waiter, self._waiters[at])
        self._waiters.insert(at, waiter)
        self._keys.insert(at, key)
        self._num_shared.insert(at, before)

    def remove(self, waiter: Waiter) -> None:
        at = bisect_left(self._keys, waiter.sort_key)
        shared = self._num_shared.pop(at)
        del self._waiters[at], self._keys[at]
        if at < len(self._num_shared):
            # What the next one shares with the one before both is what all three share.
            self._num_shared[at] = min(shared, self._num_shared[at])

    def fitting(self, num_free_tokens: int) -> SortedPrompts:
        """Those that need no more than is free."""
        waiters: list[Waiter] = []
        num_shared: list[int] = []
        least = 0
        for waiter, shared in zip(self._waiters, self._num_shared, strict=True):
            least = min(least, shared)
            if waiter.num_needed_tokens <= num_free_tokens:
                waiters.append(waiter)
                num_shared.append(least)
                least = len(waiter.tokens)
        return SortedPrompts(tuple(waiters), tuple(num_shared))

    def check_integrity(self) -> None:
        """Raise AssertionError unless the list is sorted and the numbers are right."""
        assert self._keys == sorted(self._keys)
        for at in range(1, len(self._waiters)):
            assert self._num_shared[at] == _num_shared(self._waiters[at - 1], self._waiters[at])


class Branch:
    """Prompts with the same first `depth` tokens: `families` go on in different ways, `ending` are
    those that end here."""

    __slots__ = ("depth", "ending", "families", "first_order", "num_prompts")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.families: list[Branch | Waiter] = []
        self.ending: list[Waiter] = []
        self.num_prompts = 0
        self.first_order = -1

    def add(self, part: Branch | Waiter) -> None:
        if isinstance(part, Waiter):
            size, order = 1, part.order
            is_ending = len(part.tokens) == self.depth
        else:
            size, order, is_ending = part.num_prompts, part.first_order, False
        self.num_prompts += size
        if self.first_order < 0 or order < self.first_order:
            self.first_order = order
        if is_ending and isinstance(part, Waiter):
            self.ending.append(part)
        else:
            self.families.append(part)

    def in_order(self) -> Iterable[Branch | Waiter]:
        """The largest family first, then the one that has waited longest."""
        return sorted(self.families, key=_by_size) if len(self.families) > 1 else self.families


def _by_size(part: Branch | Waiter) -> tuple[int, int]:
    if isinstance(part, Waiter):
        return -1, part.order
    return -part.num_prompts, part.first_order


def _tree(prompts: SortedPrompts) -> Branch:
    """The radix tree of these prompts, which are at least one: nodes only where they part or end."""
    root = Branch(0)
    path = [root]
    part: Branch | Waiter = prompts.waiters[0]
    for waiter, shared in zip(prompts.waiters[1:], prompts.num_shared[1:], strict=True):
        while path[-1].depth > shared:
            path[-1].add(part)
            part = path.pop()
        if path[-1].depth < shared:
            path.append(Branch(shared))
        path[-1].add(part)
        part = waiter
    while path:
        path[-1].add(part)
        part = path.pop()
    return root


def family_ranks(prompts: SortedPrompts) -> dict[Waiter, int]:
    """Places in a walk through the tree, depth first: families together, the largest first, prompts
    that end where others go on after those. Equal prompts have the same place.

    The walk keeps its own stack: it is as deep as prompts part, not as prompts are long.
    """
    ranks: dict[Waiter, int] = {}
    if not prompts.waiters:
        return ranks
    rank = 0
    stack: list[Branch | Waiter | list[Waiter]] = [_tree(prompts)]
    while stack:
        part = stack.pop()
        if isinstance(part, Branch):
            if part.ending:
                stack.append(part.ending)
            stack.extend(reversed(list(part.in_order())))
            continue
        for waiter in part if isinstance(part, list) else (part,):
            ranks[waiter] = rank
        rank += 1
    return ranks
