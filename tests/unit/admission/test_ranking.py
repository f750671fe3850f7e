import pytest

from inference.admission.families import PromptFamilies
from inference.admission.ranking import Candidate, rank_waiters, ranking_key
from inference.admission.waiter import Waiter
from tests.admission_parts import KnownCache, NoCache, make_submission


def ranked(prompts: list[tuple[int, ...]], *, ages: list[int], affinity: object = None) -> list[int]:
    families = PromptFamilies()
    for index, prompt in enumerate(prompts):
        waiter = Waiter(make_submission(str(index), prompt=prompt))
        waiter.order = index
        families.add(waiter)
    found = families.fitting(10**9)
    by_order = [ages[waiter.order] for waiter in found.waiters]
    return [w.order for w in rank_waiters(found, ages=by_order, affinity=affinity or NoCache())]  # type: ignore[arg-type]


def first(*candidates: Candidate, ageing: int) -> int:
    return min(candidates, key=lambda one: ranking_key(one, ageing=ageing)).order


def test_at_equal_age_more_saved_cost_goes_first():
    assert first(Candidate(0, 0, 0, 0), Candidate(100, 0, 1, 1), ageing=10) == 1


def test_a_cold_one_that_has_waited_long_enough_goes_before_a_hot_newcomer():
    assert first(Candidate(100, 0, 0, 0), Candidate(0, 11, 1, 1), ageing=10) == 1
    assert first(Candidate(100, 0, 0, 0), Candidate(0, 8, 1, 1), ageing=10) == 0


def test_those_that_begin_alike_go_together_where_the_rest_is_level():
    assert ranked([(9, 9, 9), (1, 2, 3), (1, 2, 4)], ages=[0, 0, 0]) == [1, 2, 0]


def test_age_counts_in_bands_of_four_turns_before_families_and_exactly_after_them():
    assert ranked([(9, 9, 9), (1, 2, 3), (1, 2, 4)], ages=[3, 2, 1]) == [1, 2, 0]
    assert ranked([(9, 9, 9), (1, 2, 3), (1, 2, 4)], ages=[10, 1, 0])[0] == 0
    assert ranked([(1, 2), (1, 2), (1, 2)], ages=[1, 3, 2]) == [1, 2, 0]


def test_a_prefix_that_is_there_beats_a_family_that_is_merely_large():
    prompts = [(1, 2, 3), (1, 2, 4), (1, 2, 5), (9, 9, 9)]
    assert ranked(prompts, ages=[0] * 4, affinity=KnownCache({9: 1})) == [3, 0, 1, 2]


def test_a_turn_is_worth_128_tokens_that_are_there():
    prompts = [(1,) * 600, (9,) * 600]
    assert ranked(prompts, ages=[0, 4], affinity=KnownCache({1: 513})) == [0, 1]
    assert ranked(prompts, ages=[0, 4], affinity=KnownCache({1: 511})) == [1, 0]


def test_the_cache_is_asked_once_for_each_namespace():
    families = PromptFamilies()
    for index, namespace in enumerate("abab"):
        waiter = Waiter(make_submission(prompt=(index, 1), namespace=namespace))
        waiter.order = index
        families.add(waiter)
    asked: list[tuple[str, int]] = []

    class Cache(NoCache):
        def matched_tokens(self, *, namespace, prompts, num_shared):
            asked.append((namespace, len(prompts)))
            assert len(prompts) == len(num_shared)
            return [0] * len(prompts)

    rank_waiters(families.fitting(10**9), ages=[0] * 4, affinity=Cache())
    assert asked == [("a", 2), ("b", 2)]


@pytest.mark.parametrize("turns", [0, 1, 4, 5])
def test_without_ageing_families_still_stand_by_their_band(turns):
    assert ranking_key(Candidate(0, turns, 0, 0), ageing=0)[0] == -4 * -(-turns // 4)
