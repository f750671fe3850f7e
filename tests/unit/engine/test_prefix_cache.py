from __future__ import annotations

import numpy as np

from inference.engine.prefix_cache import PrefixCache, PrefixMatch
from inference.engine.sequence import TokenArray


def tokens(begin: int, num_tokens: int) -> TokenArray:
    return np.arange(begin, begin + num_tokens, dtype=np.int32)


def make_cache(
    *, is_enabled: bool = True, max_entries: int = 3, min_tokens: int = 4, max_cells: int = 100
) -> PrefixCache:
    return PrefixCache(
        is_enabled=is_enabled,
        num_cells=200,
        num_sequences=4 + max_entries,
        max_entries=max_entries,
        min_tokens=min_tokens,
        max_cells=max_cells,
    )


def run(cache: PrefixCache, token_ids: TokenArray, namespace: str = "") -> int:
    """A sequence that takes what is there and computes the rest."""
    sequence_id = cache.open(namespace, token_ids)
    match = cache.find(namespace, token_ids, own_id=sequence_id)
    if match.num_tokens:
        cache.share(match, sequence_id)
    cache.grow(sequence_id, len(token_ids) - match.num_tokens)
    return sequence_id


def keep(cache: PrefixCache, token_ids: TokenArray, namespace: str = "") -> tuple[int, ...]:
    """As `run`, to its end; returns the ids that were freed."""
    freed = cache.retire(run(cache, token_ids, namespace), token_ids).freed_ids
    cache.check_integrity()
    return freed


def matched(cache: PrefixCache, token_ids: TokenArray, namespace: str = "") -> int:
    prompt = np.array(token_ids, dtype=np.int32)
    return cache.matched_tokens(namespace=namespace, prompts=[prompt], num_shared=[0])[0]


def test_the_last_token_is_always_computed_again() -> None:
    cache = make_cache()
    keep(cache, tokens(0, 20))
    assert matched(cache, tokens(0, 20)) == 19
    assert matched(cache, tokens(0, 21)) == 20
    assert matched(cache, tokens(0, 10)) == 9
    assert matched(cache, tokens(0, 1)) == 0


def test_beginnings_that_are_too_short_are_neither_kept_nor_found() -> None:
    cache = make_cache(min_tokens=4)
    assert keep(cache, tokens(0, 3)) == (0,)
    assert keep(cache, tokens(0, 20)) == ()
    assert matched(cache, tokens(0, 4)) == 0
    assert matched(cache, tokens(0, 5)) == 4


def test_a_running_prompt_counts_as_far_as_it_is_computed() -> None:
    cache = make_cache()
    leader = cache.open("", tokens(0, 30))
    assert cache.find("", tokens(0, 30)) == PrefixMatch()
    cache.grow(leader, 10)
    assert cache.find("", tokens(0, 30)) == PrefixMatch(leader, 10)
    assert cache.find("", tokens(0, 30), own_id=leader) == PrefixMatch()
    cache.grow(leader, 20)
    assert matched(cache, tokens(0, 30)) == 29


def test_whom_to_wait_for_is_told_where_it_pays_off() -> None:
    cache = make_cache(min_tokens=4)
    leader = cache.open("", tokens(0, 30))
    cache.grow(leader, 10)
    assert cache.find("", tokens(0, 40), leader_ids={leader}) == PrefixMatch(leader, 10, leader, 30)
    assert cache.find("", tokens(0, 14), leader_ids={leader}) == PrefixMatch(leader, 10)
    assert cache.find("", tokens(0, 15), leader_ids={leader}) == PrefixMatch(leader, 10, leader, 14)
    assert cache.find("other", tokens(0, 40), leader_ids={leader}) == PrefixMatch()


def test_what_is_there_can_be_longer_than_what_a_leader_will_have() -> None:
    cache = make_cache()
    keep(cache, tokens(0, 50))
    leader = cache.open("", tokens(0, 30))
    match = cache.find("", tokens(0, 60), own_id=leader, leader_ids={leader})
    assert (match.num_tokens, match.num_awaited) == (50, 0)


def test_a_longer_entry_replaces_its_beginnings_and_a_shorter_one_is_not_kept() -> None:
    cache = make_cache()
    keep(cache, tokens(0, 10))
    assert keep(cache, tokens(0, 30)) == (0,)
    assert cache.statistics.num_entries == 1
    assert keep(cache, tokens(0, 20)) != ()
    assert (cache.statistics.num_entries, cache.statistics.num_cells) == (1, 30)
    assert cache.statistics.total_evictions == 0


def test_the_least_recently_used_goes_first_and_a_hit_is_a_use() -> None:
    cache = make_cache(max_entries=3)
    for begin in (0, 100, 200):
        keep(cache, tokens(begin, 10))
    cache.retire(run(cache, tokens(0, 12)), None)
    keep(cache, tokens(300, 10))
    assert [matched(cache, tokens(begin, 11)) for begin in (0, 100, 200, 300)] == [10, 0, 10, 10]
    assert cache.statistics.total_evictions == 1


def test_asking_is_no_use() -> None:
    cache = make_cache(max_entries=2)
    keep(cache, tokens(0, 10))
    keep(cache, tokens(100, 10))
    assert matched(cache, tokens(0, 11)) == 10
    keep(cache, tokens(200, 10))
    assert matched(cache, tokens(0, 11)) == 0


def test_idle_cells_are_bounded_and_a_long_entry_is_cut() -> None:
    cache = make_cache(max_cells=50)
    keep(cache, tokens(0, 30))
    keep(cache, tokens(100, 30))
    assert (cache.statistics.num_entries, cache.statistics.num_cells) == (1, 30)
    retirement = cache.retire(run(cache, tokens(300, 80)), tokens(300, 80))
    assert retirement.num_kept == 50
    assert matched(cache, tokens(300, 80)) == 50
    assert cache.statistics.num_cells == 50


def test_cells_that_a_running_sequence_shares_are_pinned() -> None:
    cache = make_cache()
    keep(cache, tokens(0, 20))
    keep(cache, tokens(100, 20))
    user = run(cache, tokens(0, 40))
    assert (cache.num_cells_running, cache.statistics.num_cells) == (40, 20)
    # The older entry would give nothing back while somebody uses all of its cells.
    freed = cache.evict_for(200)
    assert matched(cache, tokens(0, 21)) == 20
    assert matched(cache, tokens(100, 21)) == 0
    assert len(freed) == 1
    assert cache.num_cells_free == 160
    cache.retire(user, None)
    assert cache.statistics.num_cells == 20
    assert cache.evict_one() != []
    assert cache.evict_one() == []
    cache.check_integrity()


def test_entries_go_until_there_is_room_and_no_further() -> None:
    cache = make_cache()
    for begin in (0, 100, 200):
        keep(cache, tokens(begin, 30))
    assert cache.num_cells_free == 110
    assert cache.evict_for(110) == []
    assert len(cache.evict_for(111)) == 1
    assert len(cache.evict_for(1000)) == 2
    assert cache.num_cells_free == 200


def test_shared_cells_count_once() -> None:
    cache = make_cache()
    keep(cache, np.concatenate([tokens(0, 40), tokens(500, 5)]))
    keep(cache, np.concatenate([tokens(0, 40), tokens(600, 5)]))
    assert cache.statistics.num_entries == 2
    assert cache.statistics.num_cells == 50
    assert (cache.statistics.total_hits, cache.statistics.total_hit_tokens) == (1, 40)


def test_namespaces_never_mix() -> None:
    cache = make_cache()
    keep(cache, tokens(0, 20), "user 1")
    assert matched(cache, tokens(0, 20), "user 1") == 19
    for other in ("user 2", "user 11", "", "user 1, key k"):
        assert matched(cache, tokens(0, 20), other) == 0


def test_without_entries_running_sequences_still_share() -> None:
    cache = make_cache(max_entries=0)
    leader = run(cache, tokens(0, 20))
    assert matched(cache, tokens(0, 30)) == 20
    assert cache.retire(leader, tokens(0, 20)).freed_ids == (leader,)
    assert matched(cache, tokens(0, 30)) == 0


def test_switched_off_it_finds_and_keeps_nothing() -> None:
    cache = make_cache(is_enabled=False)
    assert keep(cache, tokens(0, 20)) == (0,)
    assert run(cache, tokens(0, 20)) == 0
    assert matched(cache, tokens(0, 20)) == 0
    assert cache.num_cells_running == 20
    assert "off" in repr(cache)


def test_what_could_not_be_kept_is_forgotten() -> None:
    cache = make_cache()
    keep(cache, tokens(0, 20))
    cache.forget(0)
    cache.forget(0)
    assert matched(cache, tokens(0, 20)) == 0
    assert cache.num_cells_free == 200
    cache.check_integrity()
