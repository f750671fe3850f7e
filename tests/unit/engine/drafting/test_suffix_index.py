from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.drafting.suffix_index import MAX_CANDIDATES, SHORTEST_REACH, Proposal, SuffixIndex


def naive(tokens: list[int], max_tokens: int, *, min_match: int, max_match: int) -> Proposal | None:
    """The rule, word by word, in quadratic time."""
    seed = tokens[-min_match:]
    places = [
        place
        for place in range(min_match, len(tokens))
        if tokens[place - min_match : place] == seed and len(seed) == min_match
    ]
    best = None
    for place in reversed(places[-MAX_CANDIDATES:]):
        match = 0
        while match < min(place, max_match) and tokens[place - match - 1] == tokens[-match - 1]:
            match += 1
        if best is None or match > best[1]:
            best = (place, match)
    if best is None or max_tokens < 1:
        return None
    place, match = best
    length = min(max_tokens, max(SHORTEST_REACH, 2 * match))
    return Proposal(tuple(tokens[place : place + length]), match)


@given(
    tokens=st.lists(st.integers(0, 3), max_size=120),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    min_match=st.integers(1, 4),
    max_match=st.integers(4, 12),
    max_tokens=st.integers(0, 20),
)
def test_it_finds_what_a_search_through_everything_finds(
    tokens: list[int], cuts: list[int], min_match: int, max_match: int, max_tokens: int
) -> None:
    index = SuffixIndex(min_match=min_match, max_match=max_match)
    begin = 0
    for end in [*sorted(cut for cut in cuts if cut < len(tokens)), len(tokens)]:
        index.extend(tokens[begin:end])
        begin = end
        expected = naive(tokens[:end], max_tokens, min_match=min_match, max_match=max_match)
        assert index.propose(max_tokens) == expected
    assert len(index) == len(tokens)


def test_it_proposes_what_followed_the_same_words() -> None:
    index = SuffixIndex()
    index.extend([1, 2, 3, 4, 5, 6, 7, 8, 90, 1, 2, 3])
    assert index.propose(8) == Proposal((4, 5, 6, 7, 8, 90), 3)
    assert index.propose(2) == Proposal((4, 5), 3)


def test_of_equally_long_matches_the_newest_counts() -> None:
    index = SuffixIndex()
    index.extend([1, 2, 3, 50, 0, 1, 2, 3, 60, 9, 1, 2, 3])
    assert index.propose(1) == Proposal((60,), 3)


def test_a_longer_match_counts_more_than_a_newer_one() -> None:
    index = SuffixIndex()
    index.extend([7, 1, 2, 3, 50, 0, 1, 2, 3, 60, 7, 1, 2, 3])
    assert index.propose(1) == Proposal((50,), 4)


def test_it_reaches_twice_as_far_as_it_matches_and_never_beyond_what_is_known() -> None:
    index = SuffixIndex()
    index.extend([*range(20), 500, *range(5)])
    proposal = index.propose(100)
    assert proposal == Proposal(tuple(range(5, 15)), 5)
    repeated = SuffixIndex()
    repeated.extend([1, 2, 3, 1, 2, 3])
    assert repeated.propose(100) == Proposal((1, 2, 3), 3)


@pytest.mark.parametrize("tokens", [[], [1], [1, 1, 1], [1, 2, 3, 4], [1, 2, 1, 2]])
def test_too_little_text_proposes_nothing(tokens: list[int]) -> None:
    index = SuffixIndex()
    index.extend(tokens)
    assert index.propose(8) is None


def test_made_up_ids_of_pictures_are_tokens_like_others() -> None:
    index = SuffixIndex()
    index.extend([-5, -6, -7, 8, -5, -6, -7])
    assert index.propose(1) == Proposal((8,), 3)


def test_one_token_over_and_over_costs_no_more_than_others() -> None:
    """The first candidate is as long as a match can be, and the other ones are not looked at."""
    index = SuffixIndex()
    index.extend([7] * 50_000)
    began = time.thread_time()
    for _ in range(200):
        index.extend([7])
        assert index.propose(8) == Proposal((7,), 64)
    assert time.thread_time() - began < 1.0


def test_a_match_that_could_not_be_is_refused() -> None:
    with pytest.raises(ValueError, match="no sense"):
        SuffixIndex(min_match=5, max_match=4)
