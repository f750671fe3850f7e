from __future__ import annotations

import gc
import platform
import subprocess
import sys
import weakref

import pytest

from inference.engine.allocator import give_back, limit_arenas

IS_GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"

# Threads that each hold a block of the heap while the next one is begun: each would have an arena.
COUNT_ARENAS = """
import ctypes, sys, threading
from inference.engine.allocator import limit_arenas
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
is_set = limit_arenas({}) if sys.argv[1] == "limited" else False
release = threading.Event()
def hold(is_there):
    library.malloc(100_000)
    is_there.set()
    release.wait()
threads = []
for _ in range(6):
    is_there = threading.Event()
    threads.append(threading.Thread(target=hold, args=(is_there,)))
    threads[-1].start()
    is_there.wait()
library.fopen.restype = ctypes.c_void_p
file = library.fopen(b"/dev/stdout", b"w")
library.malloc_info(0, ctypes.c_void_p(file))
library.fclose(ctypes.c_void_p(file))
release.set()
"""


def num_arenas(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", COUNT_ARENAS, how], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(not IS_GLIBC, reason="arenas are glibc's")
def test_threads_share_two_arenas() -> None:
    assert num_arenas("unlimited") > 2
    assert num_arenas("limited") == 2


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_what_an_operator_set_stays(name: str) -> None:
    assert limit_arenas({name: "8"}) is False


def test_circles_are_given_back() -> None:
    class Node:
        def __init__(self) -> None:
            self.itself = self

    gc.disable()
    try:
        is_there = weakref.ref(Node())
        assert is_there() is not None
        give_back()
        assert is_there() is None
    finally:
        gc.enable()
