from __future__ import annotations

from pathlib import Path

from inference.engine.llama.memory import available_bytes


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_smaller_of_system_and_container_counts(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", "MemTotal: 8000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n")
    limit = write(tmp_path / "max", "1000000\n")
    assert available_bytes(meminfo, limit) == 1_000_000
    assert available_bytes(meminfo, write(limit, "max\n")) == 4000 * 1024
    assert available_bytes(meminfo, tmp_path / "none") == 4000 * 1024


def test_where_nothing_is_known_it_is_none(tmp_path: Path) -> None:
    assert available_bytes(tmp_path / "a", tmp_path / "b") is None
    assert available_bytes(write(tmp_path / "a", "MemAvailable: many kB\n"), tmp_path / "b") is None
