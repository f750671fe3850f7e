from __future__ import annotations

import random

import numpy as np
import pytest

from inference.engine.radix_tree import RadixTree, num_common
from inference.engine.sequence import TokenArray


def tokens(*token_ids: int) -> TokenArray:
    return np.array(token_ids, dtype=np.int32)


def overlaps(tree: RadixTree, *token_ids: int, namespace: str = "") -> list[tuple[int, set[int]]]:
    tree.check_integrity()
    return [(one.num_tokens, set(one.holders)) for one in tree.overlaps(namespace, tokens(*token_ids))]


def test_the_common_beginning_of_two_arrays() -> None:
    assert num_common(tokens(), tokens(1)) == 0
    assert num_common(tokens(1, 2), tokens(1, 2)) == 2
    assert num_common(tokens(1, 2), tokens(1, 2, 3)) == 2
    assert num_common(tokens(1, 2, 3), tokens(1, 9, 3)) == 1
    assert num_common(tokens(2), tokens(1)) == 0


def test_who_begins_alike_is_found_the_longest_first() -> None:
    tree = RadixTree()
    tree.insert(1, "", tokens(1, 2, 3, 4))
    tree.insert(2, "", tokens(1, 2, 3, 9))
    tree.insert(3, "", tokens(1, 2))
    assert overlaps(tree, 1, 2, 3, 4, 5) == [(4, {1}), (3, {1, 2}), (2, {1, 2, 3})]
    assert overlaps(tree, 1, 2, 3) == [(3, {1, 2}), (2, {1, 2, 3})]
    assert overlaps(tree, 1) == [(1, {1, 2, 3})]
    assert overlaps(tree, 2, 1) == []
    assert overlaps(tree) == []


def test_in_the_middle_of_a_run_only_what_is_equal_counts() -> None:
    tree = RadixTree()
    tree.insert(1, "", tokens(1, 2, 3, 4, 5))
    assert overlaps(tree, 1, 2, 3, 9, 5) == [(3, {1})]


def test_equal_tokens_have_several_holders() -> None:
    tree = RadixTree()
    tree.insert(1, "", tokens(1, 2))
    tree.insert(2, "", tokens(1, 2))
    assert overlaps(tree, 1, 2) == [(2, {1, 2})]
    tree.remove(1)
    assert overlaps(tree, 1, 2) == [(2, {2})]
    with pytest.raises(RuntimeError, match="already"):
        tree.insert(2, "", tokens(3))


def test_namespaces_have_nothing_in_common() -> None:
    tree = RadixTree()
    tree.insert(1, "a", tokens(1, 2))
    tree.insert(2, "b", tokens(1, 2, 3))
    assert overlaps(tree, 1, 2, 3, namespace="a") == [(2, {1})]
    assert overlaps(tree, 1, 2, 3, namespace="b") == [(3, {2})]
    assert overlaps(tree, 1, 2, 3, namespace="") == []
    tree.remove(2)
    assert overlaps(tree, 1, 2, 3, namespace="b") == []
    assert tree.namespace(1) == "a"


def test_what_was_split_is_joined_when_its_reason_is_gone() -> None:
    tree = RadixTree()
    tree.insert(1, "", tokens(1, 2, 3, 4))
    tree.insert(2, "", tokens(1, 2, 8))
    tree.insert(3, "", tokens(1, 2, 3))
    tree.remove(2)
    assert overlaps(tree, 1, 2, 3, 4) == [(4, {1}), (3, {1, 3})]
    tree.remove(3)
    assert overlaps(tree, 1, 2, 3, 4) == [(4, {1})]
    tree.remove(1)
    assert len(tree) == 0
    assert overlaps(tree, 1) == []


def test_it_finds_what_comparing_with_everybody_finds() -> None:
    chance = random.Random(7)
    tree, known = RadixTree(), {}
    for step in range(600):
        if known and chance.random() < 0.45:
            gone = chance.choice(sorted(known))
            tree.remove(gone)
            del known[gone]
        else:
            token_ids = [chance.choice([1, 2]) for _ in range(chance.randrange(12))]
            known[step] = token_ids
            tree.insert(step, "", tokens(*token_ids))
        wanted = [chance.choice([1, 2]) for _ in range(chance.randrange(1, 12))]
        best = {one: num_common(tokens(*token_ids), tokens(*wanted)) for one, token_ids in known.items()}
        found: dict[int, int] = {}
        for length, holders in overlaps(tree, *wanted):
            for holder in holders:
                found.setdefault(holder, length)
        assert found == {one: length for one, length in best.items() if length}
