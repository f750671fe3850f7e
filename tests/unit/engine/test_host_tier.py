"""Pieces of state in host memory: what stays, what goes, and what is damaged."""

from __future__ import annotations

import numpy as np

from inference.domain.cache_retention import DAY_S, CacheRetention
from inference.engine.host_tier import HostTier, StatePiece

PLAIN, DAY, IN_MEMORY = CacheRetention.UNSAID, CacheRetention.DAY, CacheRetention.IN_MEMORY


class Tier:
    """A tier of 100 bytes with a clock by hand; pieces have 10 bytes."""

    def __init__(self) -> None:
        self.now_ts = 1000.0
        self.left: list[StatePiece] = []
        self.tier = HostTier(100, now_ts=lambda: self.now_ts, on_leave=self.left.append)

    def put(self, *names: str, retention: CacheRetention = PLAIN) -> None:
        for name in names:
            assert self.tier.put(name.encode(), np.full(10, ord(name[0]), dtype=np.uint8), retention)
            self.tier.check_integrity()

    @property
    def left_names(self) -> str:
        return "".join(piece.key.decode() for piece in self.left)


def test_what_was_put_is_got() -> None:
    tier = Tier()
    tier.put("a")
    data = tier.tier.get(b"a")
    assert data is not None
    assert bytes(data) == b"a" * 10
    assert tier.tier.get(b"b") is None
    assert b"a" in tier.tier
    assert b"b" not in tier.tier


def test_what_was_not_used_for_longest_gives_way() -> None:
    tier = Tier()
    tier.put(*"abcdefghij")
    tier.tier.use([b"a", b"b"], PLAIN)
    tier.put(*"kl")
    assert tier.left_names == "cd"
    assert tier.tier.total_evictions == 2


def test_the_end_of_a_chain_goes_before_its_beginning() -> None:
    tier = Tier()
    tier.put(*"abcdefghij")
    tier.tier.use([b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j"], PLAIN)
    tier.put(*"klm")
    assert tier.left_names == "jih"


def test_what_is_kept_for_a_day_goes_last() -> None:
    tier = Tier()
    tier.put("a", "b", retention=DAY)
    tier.put(*"cdefghij")
    tier.put(*"kl")
    assert tier.left_names == "cd"


def test_what_is_kept_for_a_day_cannot_take_everything() -> None:
    tier = Tier()
    tier.put(*"abcdef", retention=DAY)
    tier.put(*"ghij")
    tier.put(*"kl")
    assert tier.left_names == "ag"


def test_a_day_ends() -> None:
    tier = Tier()
    tier.put("a", retention=DAY)
    tier.put(*"bcdefghij")
    tier.now_ts += DAY_S + 1
    tier.put("k")
    assert tier.left_names == "a"


def test_using_it_again_begins_a_new_day() -> None:
    tier = Tier()
    tier.put("a", retention=DAY)
    tier.put(*"bcdefghij")
    tier.now_ts += DAY_S - 1
    tier.tier.use([b"a"], DAY)
    tier.now_ts += 2
    tier.put("k")
    assert tier.left_names == "b"


def test_using_it_without_a_word_does_not() -> None:
    tier = Tier()
    tier.put("a", retention=DAY)
    tier.put(*"bcdefghij")
    tier.now_ts += DAY_S - 1
    tier.tier.use([b"a"], PLAIN)
    tier.now_ts += 2
    tier.put("k")
    assert tier.left_names == "a"


def test_the_longest_wish_of_several_holds() -> None:
    tier = Tier()
    tier.put("a", retention=IN_MEMORY)
    for wish, outcome in [(IN_MEMORY, IN_MEMORY), (PLAIN, PLAIN), (DAY, DAY), (IN_MEMORY, DAY)]:
        tier.tier.use([b"a"], wish)
        (piece,) = tier.tier.pieces()
        assert piece.retention is outcome


def test_what_has_changed_is_dropped() -> None:
    tier = Tier()
    tier.put("a", "b")
    tier.tier.pieces()[0].data[3] ^= 1
    assert tier.tier.get(b"a") is None
    assert b"a" not in tier.tier
    assert tier.tier.get(b"b") is not None
    assert tier.tier.total_damaged == 1
    tier.tier.check_integrity()


def test_what_is_too_large_is_not_kept_and_nothing_goes_for_it() -> None:
    tier = Tier()
    tier.put("a")
    assert not tier.tier.put(b"b", np.zeros(101, dtype=np.uint8), DAY)
    assert b"a" in tier.tier
    assert tier.left == []


def test_the_same_piece_is_kept_once() -> None:
    tier = Tier()
    tier.put("a", "a")
    assert (len(tier.tier), tier.tier.num_bytes) == (1, 10)


def test_nobody_hears_of_what_is_dropped() -> None:
    tier = Tier()
    tier.put("a", "b", retention=DAY)
    tier.tier.drop(b"a")
    tier.tier.drop(b"a")
    tier.tier.close()
    assert tier.left == []
    assert (len(tier.tier), tier.tier.num_bytes) == (0, 0)
    tier.tier.check_integrity()
