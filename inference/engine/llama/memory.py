"""How much memory a process may still take, before it takes it.

KV cells are only touched when they are used, so a pool that does not fit is made without an error,
and the kernel ends the process in the middle of somebody's answer. Better to refuse at the start.
"""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def available_bytes(meminfo: Path = _MEMINFO, cgroup_limit: Path = _CGROUP_LIMIT) -> int | None:
    """Bytes that can be had without swapping, by the system or the container, whichever is less.

    None where neither says anything (systems other than Linux).
    """
    known = [value for value in (_available(meminfo), _limit(cgroup_limit)) if value is not None]
    return min(known) if known else None


def _available(meminfo: Path) -> int | None:
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return None
