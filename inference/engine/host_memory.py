"""How much of a machine's memory the host tier takes where nobody has said it.

It fills up over hours of work, beside a model, its cells and everything else, so it must be a part that
nobody misses; and more than some gigabytes only hold what hardly anybody asks for again.
"""

from __future__ import annotations

import os
from pathlib import Path

# llama-server's default for its cache of prompts in memory is 8 GiB flat.
MAX_DEFAULT_BYTES = 8 << 30
DEFAULT_SHARE = 16
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def default_host_cache_bytes(cgroup_limit: Path = _CGROUP_LIMIT) -> int:
    """A sixteenth of the machine's memory, or of what its container may have, 8 GiB at most; 0 where
    neither is known."""
    known = [value for value in (_physical_bytes(), _limit(cgroup_limit)) if value]
    return min(min(known) // DEFAULT_SHARE, MAX_DEFAULT_BYTES) if known else 0


def _physical_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not every system says it
        return 0


def _limit(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return 0
