from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from inference.engine.radix_tree import RadixTree, num_common
from inference.engine.radix_walk import RadixWalk
from inference.engine.sequence import TokenArray


def array(*token_ids: int) -> TokenArray:
    return np.array(token_ids, dtype=np.int32)


def test_an_empty_tree_has_nothing() -> None:
    assert RadixWalk(None, lambda holder: 5).longest(array(1, 2), 0) == 0


def test_the_next_prompt_goes_on_from_what_it_shares() -> None:
    tree = RadixTree()
    tree.insert(1, "", array(1, 2, 3, 4, 5))
    tree.insert(2, "", array(1, 2, 9, 9))
    walk = RadixWalk(tree.root(""), lambda holder: 10)
    assert walk.longest(array(1, 2, 3, 4), 0) == 4
    assert walk.longest(array(1, 2, 3, 8), 3) == 3
    assert walk.longest(array(1, 2, 3, 8, 8), 4) == 3  # it shares more than there was
    assert walk.longest(array(1, 2, 9, 9), 2) == 4
    assert walk.longest(array(7), 0) == 0


def test_only_tokens_with_cells_count_and_those_of_one_holder() -> None:
    tree = RadixTree()
    tree.insert(1, "", array(1, 2, 3, 4, 5))
    tree.insert(2, "", array(1, 2, 3, 9))
    cells = {1: 2, 2: 3}
    assert RadixWalk(tree.root(""), cells.__getitem__).longest(array(1, 2, 3, 4, 5), 0) == 3


@pytest.mark.parametrize("seed", range(40))
def test_many_sorted_prompts_find_what_each_would_find_alone(seed: int) -> None:
    chance = random.Random(seed)

    def some() -> tuple[int, ...]:
        return tuple(chance.randrange(3) for _ in range(chance.randrange(1, 12)))

    tree, held = RadixTree(), {}
    for holder in range(chance.randrange(1, 12)):
        held[holder] = array(*some())
        tree.insert(holder, "", held[holder])
    cells = {holder: chance.randrange(len(tokens) + 1) for holder, tokens in held.items()}
    prompts = [array(*one) for one in sorted(some() for _ in range(30))]
    shared = [0, *(num_common(one, other) for one, other in itertools.pairwise(prompts))]

    walk = RadixWalk(tree.root(""), cells.__getitem__)
    found = [walk.longest(prompt, num) for prompt, num in zip(prompts, shared, strict=True)]

    expected = [max(min(num_common(prompt, held[h]), cells[h]) for h in held) for prompt in prompts]
    assert found == expected
