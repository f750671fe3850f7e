from __future__ import annotations

from pathlib import Path

from inference.engine.llama.memory import available_bytes


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text)
    return path


def test_the_smaller_of_system_and_container_counts(tmp_path: Path) -> None:
    meminfo = write(tmp_path / "meminfo", "MemTotal: 8000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n")
    none = tmp_path / "none"
    write(tmp_path / "cgroup" / "memory.max", "1000000\n")
    assert available_bytes(meminfo, tmp_path / "cgroup", none) == 1_000_000
    write(tmp_path / "cgroup" / "memory.max", "max\n")
    assert available_bytes(meminfo, tmp_path / "cgroup", none) == 4000 * 1024
    assert available_bytes(meminfo, none, none) == 4000 * 1024


def test_a_container_has_what_its_limit_leaves_beside_what_it_uses_but_for_cached_files(
    tmp_path: Path,
) -> None:
    meminfo = write(tmp_path / "meminfo", "MemAvailable: 4000 kB\n")
    own = write(tmp_path / "own", "0::/system.slice/skippy.service\n")
    folder = tmp_path / "cgroup" / "system.slice" / "skippy.service"
    write(folder / "memory.max", "1000000\n")
    write(folder / "memory.current", "700000\n")
    write(folder / "memory.stat", "anon 500000\ninactive_file 150000\nactive_file 50000\n")
    assert available_bytes(meminfo, tmp_path / "cgroup", own) == 500_000
    write(folder / "memory.current", "5000000\n")
    assert available_bytes(meminfo, tmp_path / "cgroup", own) == 0


def test_where_nothing_is_known_it_is_none(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert available_bytes(none, none, none) is None
    assert available_bytes(write(tmp_path / "a", "MemAvailable: many kB\n"), none, none) is None
