from __future__ import annotations

import threading

import pytest

from inference.domain.errors import ServerOverloaded
from inference.media.encoded import EncodedMediaCache

ROWS = ([0.0],)


@pytest.fixture
def cache() -> EncodedMediaCache:
    return EncodedMediaCache(100)


def test_what_was_made_is_found_again(cache: EncodedMediaCache) -> None:
    assert cache.find(b"a") is None
    made = cache.add(b"a", (), ROWS, 40)  # type: ignore[arg-type]
    assert cache.find(b"a") is made
    statistics = cache.statistics
    assert (statistics.num_bytes, statistics.num_cached, statistics.total_hits) == (40, 1, 1)
    assert statistics.total_misses == 1
    cache.check_integrity()


def test_what_was_not_used_for_longest_makes_room(cache: EncodedMediaCache) -> None:
    for name in (b"a", b"b"):
        cache.add(name, (), ROWS, 40)  # type: ignore[arg-type]
    cache.find(b"a")
    cache.make_room(40)
    cache.check_integrity()
    assert cache.find(b"b") is None
    assert cache.find(b"a") is not None
    assert cache.statistics.num_bytes == 40


def test_what_requests_hold_counts_until_they_let_go(cache: EncodedMediaCache) -> None:
    held = cache.add(b"a", (), ROWS, 70)  # type: ignore[arg-type]
    with pytest.raises(ServerOverloaded):
        cache.make_room(40)
    assert cache.statistics.num_cached == 0
    assert cache.find(b"a") is held  # it is there, so nobody makes it twice
    cache.check_integrity()
    with pytest.raises(ServerOverloaded):
        cache.make_room(40)
    del held
    cache.make_room(40)
    assert cache.statistics.num_bytes == 0
    cache.check_integrity()


def test_who_lets_go_on_another_thread_is_counted_too(cache: EncodedMediaCache) -> None:
    made = cache.add(b"a", (), ROWS, 70)  # type: ignore[arg-type]
    cache.find(b"a")
    with pytest.raises(ServerOverloaded):
        cache.make_room(40)
    holders = [made]
    del made
    thread = threading.Thread(target=holders.clear)
    thread.start()
    thread.join()
    cache.make_room(100)
    assert cache.statistics.num_bytes == 0
    cache.check_integrity()


def test_one_that_is_larger_than_all_memory_is_served_where_nothing_else_is(cache: EncodedMediaCache) -> None:
    cache.make_room(150)
    large = cache.add(b"large", (), ROWS, 150)  # type: ignore[arg-type]
    assert cache.statistics.num_cached == 0
    with pytest.raises(ServerOverloaded):
        cache.make_room(1)
    del large
    cache.make_room(1)
    cache.check_integrity()
