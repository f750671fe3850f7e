"""How much memory a process may still take, before it takes it.

KV cells are only touched when they are used, so a pool that does not fit is made without an error,
and the kernel ends the process in the middle of somebody's answer. Better to refuse at the start.
"""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def available_bytes(
    meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP, own_cgroup: Path = _OWN_CGROUP
) -> int | None:
    """Bytes that can be had without swapping, by the system or the container, whichever is less. A container
    may take what its limit leaves beside what it has, of which cached files are no hindrance.

    None where nothing says anything (systems other than Linux).
    """
    folders = {cgroup, cgroup / _own_part(own_cgroup)}
    known = [value for value in (_available(meminfo), *map(_left, folders)) if value is not None]
    return min(known) if known else None


def _available(meminfo: Path) -> int | None:
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _own_part(own_cgroup: Path) -> str:
    """The process's place below the root of version 2 ("0::/system.slice/…"); often the root itself."""
    try:
        lines = own_cgroup.read_text().splitlines()
    except OSError:
        return ""
    own = next((line for line in lines if line.startswith("0::")), "")
    return own.removeprefix("0::").strip("/")


def _left(folder: Path) -> int | None:
    try:
        limit = int((folder / "memory.max").read_text())
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return None
    try:
        used = int((folder / "memory.current").read_text())
        rows = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
        cached = {row[0]: int(row[1]) for row in rows if len(row) == 2}
    except (OSError, ValueError):
        return limit
    reclaimable = cached.get("inactive_file", 0) + cached.get("active_file", 0)
    return max(0, limit - max(0, used - reclaimable))
