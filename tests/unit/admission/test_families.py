import random
import time

import numpy as np
import pytest

from inference.admission.families import PromptFamilies, family_ranks
from inference.admission.waiter import Waiter
from tests.admission_parts import make_submission


def families(
    *prompts: tuple[int, ...], namespaces: tuple[str, ...] = ()
) -> tuple[PromptFamilies, list[Waiter]]:
    made, waiters = PromptFamilies(), []
    for index, prompt in enumerate(prompts):
        namespace = namespaces[index] if namespaces else ""
        waiter = Waiter(make_submission(str(index), prompt=prompt, namespace=namespace))
        waiter.order = index
        made.add(waiter)
        waiters.append(waiter)
    made.check_integrity()
    return made, waiters


def order(*prompts: tuple[int, ...], namespaces: tuple[str, ...] = ()) -> list[int]:
    made, _ = families(*prompts, namespaces=namespaces)
    ranks = family_ranks(made.fitting(10**9))
    return sorted(
        (waiter.order for waiter in ranks), key={w.order: (r, w.order) for w, r in ranks.items()}.get
    )


def expected_order(members: list[tuple[int, tuple[int, ...]]], depth: int = 0) -> list[int]:
    """The walk as it is described, with a tree made anew: the slow and obvious way."""
    if len({prompt for _, prompt in members}) == 1:
        return [index for index, _ in sorted(members)]
    ending = sorted(index for index, prompt in members if len(prompt) == depth)
    groups: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for index, prompt in members:
        if len(prompt) > depth:
            groups.setdefault(prompt[depth], []).append((index, prompt))
    ranked = sorted(groups.items(), key=lambda one: (-len(one[1]), min(one[1])[0], one[0]))
    return [index for _, group in ranked for index in expected_order(group, depth + 1)] + ending


def test_a_family_goes_before_a_single_one_that_came_earlier():
    assert order((9, 9, 9), (1, 2, 3), (1, 2, 4)) == [1, 2, 0]


def test_families_of_one_size_go_by_who_came_first_and_endings_go_last():
    assert order((5, 1), (4, 1), (5, 2), (4, 2)) == [0, 2, 1, 3]
    assert order((1, 2), (1, 2, 3), (1, 2, 4), (1, 2)) == [1, 2, 0, 3]


def test_equal_prompts_have_the_same_place():
    made, waiters = families((1, 2, 3), (1, 2, 3), (1, 2, 4))
    ranks = family_ranks(made.fitting(10**9))
    assert ranks[waiters[0]] == ranks[waiters[1]] != ranks[waiters[2]]


def test_prompts_of_other_namespaces_are_no_relatives():
    assert order((1, 2, 3), (1, 2, 4), (1, 2, 5), namespaces=("a", "b", "b")) == [1, 2, 0]


def test_token_ids_are_compared_as_numbers_however_large():
    made, _ = families((65536, 1), (255, 1), (256, 1), (1, 1))
    assert [w.order for w in made.fitting(10**9).waiters] == [3, 1, 2, 0]


def test_only_those_that_fit_are_taken_and_what_they_share_is_still_right():
    made, _ = families((1, 2, 3, 4), (1, 2, 3, 5, 6, 7), (1, 2, 3, 5), (8,))
    found = made.fitting(14)  # four tokens and max_tokens 10
    assert [waiter.order for waiter in found.waiters] == [0, 2, 3]
    assert found.num_shared == (0, 3, 0)
    assert family_ranks(made.fitting(0)) == {}


@pytest.mark.parametrize("seed", range(30))
def test_the_walk_is_the_one_through_a_tree_made_of_the_same_prompts(seed):
    chance = random.Random(seed)
    prompts = [
        tuple(chance.randrange(3) for _ in range(chance.randrange(1, 9)))
        for _ in range(chance.randrange(1, 40))
    ]
    made, waiters = families(*prompts)
    for waiter in chance.sample(waiters, len(waiters) // 3):
        made.remove(waiter)
        waiters.remove(waiter)
        made.check_integrity()

    ranks = family_ranks(made.fitting(10**9))
    found = sorted(ranks, key=lambda waiter: (ranks[waiter], waiter.order))
    expected = expected_order([(waiter.order, tuple(map(int, waiter.tokens))) for waiter in waiters])
    assert [waiter.order for waiter in found] == expected


def test_the_walk_is_as_deep_as_prompts_part_and_not_as_they_are_long():
    common = tuple(range(100_000))
    assert order((*common, 1), (*common, 2), (7,)) == [0, 1, 2]
    nested = [tuple([0] * depth + [1]) for depth in range(1500)]
    begin = time.perf_counter()
    assert len(order(*nested)) == 1500
    assert time.perf_counter() - begin < 5


def test_a_waiter_keeps_its_prompt_as_int32():
    waiter = Waiter(make_submission(prompt=(1, 2, 2**31 - 1)))
    assert waiter.tokens.dtype == np.int32
    assert waiter.tokens.tolist() == [1, 2, 2**31 - 1]
    assert waiter.num_needed_tokens == 13
