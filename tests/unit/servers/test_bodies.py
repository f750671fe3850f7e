from __future__ import annotations

from skippy_site.servers.bodies import BodyMemory, BodyVerdict


def test_a_body_may_reach_its_limit_and_not_exceed_it() -> None:
    memory = BodyMemory(max_body_bytes=10, max_buffered_bytes=100)
    meter = memory.open()
    assert meter.add(10) is BodyVerdict.FITS
    assert meter.add(1) is BodyVerdict.TOO_LARGE
    assert meter.num_bytes == 10
    memory.check_integrity()


def test_all_bodies_together_have_a_limit_too() -> None:
    memory = BodyMemory(max_body_bytes=10, max_buffered_bytes=15)
    first, second = memory.open(), memory.open()
    assert first.add(10) is BodyVerdict.FITS
    assert second.add(6) is BodyVerdict.NO_ROOM
    assert second.add(5) is BodyVerdict.FITS
    memory.check_integrity()
    first.release()
    assert second.add(5) is BodyVerdict.FITS
    assert memory.statistics().buffered_bytes == 10


def test_release_gives_back_exactly_once() -> None:
    memory = BodyMemory(max_body_bytes=10, max_buffered_bytes=100)
    meter, other = memory.open(), memory.open()
    meter.add(7), other.add(3)
    meter.release()
    meter.release()
    assert (memory.statistics().num_bodies, memory.statistics().buffered_bytes) == (1, 3)
    memory.check_integrity()
    assert "3 bytes" in repr(memory)


def test_one_body_of_the_greatest_size_always_finds_room() -> None:
    memory = BodyMemory(max_body_bytes=10, max_buffered_bytes=1)
    assert memory.open().add(10) is BodyVerdict.FITS
