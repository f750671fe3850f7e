"""What the C library keeps of memory that was freed, so that models that come and go leave nothing.

glibc gives each thread a part of the heap of its own (an arena), up to eight for each core, and returns the
end of an arena to the system only where that is much. Each load has threads of its own, so that every arena
came to hold some megabytes of what the last model had there. Other C libraries have none of this: nothing
is done then.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

# malloc.h
_M_ARENA_MAX = -8
# One is the main heap, the only one of which malloc_trim returns the end. The second is for threads that
# find it locked; Python's own objects are in neither.
MAX_ARENAS = 2
# How an operator says that he knows better.
_OVERRIDES = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


def limit_arenas(environment: Mapping[str, str] = os.environ) -> bool:
    """To be called while the process has few threads. False where nothing was done."""
    set_option = _function("mallopt")
    if set_option is None or any(name in environment for name in _OVERRIDES):
        return False
    return bool(set_option(_M_ARENA_MAX, MAX_ARENAS))


def give_back() -> None:
    """Return to the system what is kept of a model that was freed. Takes some milliseconds.

    First what its last requests left in circles, such as constraints that were compiled for it (20 MB for
    50,000 tokens): the collector would come by when there are a quarter more objects than when it last did,
    and where the rest of the heap is settled that is many models later.
    """
    gc.collect()
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
