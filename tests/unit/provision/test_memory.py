from pathlib import Path

from skippy_site.provision.memory import memory_bytes


def test_memory_is_read_from_the_kernel(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(
        "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    600 kB\nHugePages_Total: 0\n"
    )
    assert memory_bytes(meminfo) == (1_024_000, 614_400)
    assert memory_bytes(tmp_path / "absent") == (None, None)
