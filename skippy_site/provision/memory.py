"""How much memory there is for us: the kernel's figures, no more than a container is allowed."""

from __future__ import annotations

from pathlib import Path

CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_bytes(meminfo: Path = Path("/proc/meminfo")) -> tuple[int | None, int | None]:
    """Total and available (page cache counts as available); None where the system does not tell."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None, None
    sizes = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    if total is None or available is None:
        return None, None
    for file in CGROUP_LIMITS:
        try:
            limit = int(file.read_text())
        except (OSError, ValueError):
            continue
        total, available = min(total, limit), min(available, limit)
    return total, available
