"""The size of the host tier where nobody has said it."""

from __future__ import annotations

from pathlib import Path

from inference.engine.host_memory import MAX_DEFAULT_BYTES, default_host_cache_bytes


def test_it_is_a_small_part_of_the_machine(tmp_path: Path) -> None:
    assert 0 < default_host_cache_bytes(tmp_path / "none") <= MAX_DEFAULT_BYTES


def test_a_container_that_may_have_less_counts(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1600000000\n")
    assert default_host_cache_bytes(limit) <= 100_000_000
    limit.write_text("160\n")
    assert default_host_cache_bytes(limit) == 10


def test_a_container_without_a_limit_is_the_machine(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    assert default_host_cache_bytes(limit) == default_host_cache_bytes(tmp_path / "none")
