"""A computation that never returns, for real: the engine's thread is stopped from outside, with ptrace,
while the rest of the process goes on."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.contract.api.conftest import LiveService, start_service

# linux/ptrace.h
SEIZE, INTERRUPT, CONTINUE = 0x4206, 0x4207, 7
PATIENCE_S = 30.0
WAIT_ALL = 0x40000000  # __WALL: other processes' threads, too

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ptrace as Linux has it")


def cpu_ticks(pid: int) -> dict[int, int]:
    """User and system time of each thread."""
    ticks = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks[int(task.name)] = int(fields[11]) + int(fields[12])
    return ticks


def busiest_thread(pid: int) -> int:
    before = cpu_ticks(pid)
    time.sleep(0.5)
    after = cpu_ticks(pid)
    return max(after, key=lambda one: after[one] - before.get(one, 0))


def is_answering(service: LiveService) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{service.url}/healthz", timeout=1).status_code == 200
    return False


@contextmanager
def stopped(thread_id: int, service: LiveService) -> Iterator[None]:
    """The thread stands still, but not while it holds the interpreter: then all would."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(SEIZE, thread_id, None, None) != 0:
        pytest.skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")
    for _ in range(20):
        libc.ptrace(INTERRUPT, thread_id, None, None)
        os.waitpid(thread_id, WAIT_ALL)
        if is_answering(service):
            break
        libc.ptrace(CONTINUE, thread_id, None, None)
        time.sleep(0.05)
    else:
        raise AssertionError("the engine's thread was never caught without the interpreter")
    yield
    # Whoever traces a thread must take note of its end, or the process cannot end.
    deadline = time.monotonic() + PATIENCE_S
    with suppress(ChildProcessError):
        while os.waitpid(thread_id, WAIT_ALL | os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.05)


def test_an_engine_that_hangs_is_noticed_everybody_is_told_and_the_process_ends(tmp_path: Path) -> None:
    service = start_service(tmp_path, "daphne", SKIPPY_THREADS="1", SKIPPY_WATCHDOG_S="3")
    answers: list[httpx.Response] = []

    def ask() -> None:
        answers.append(service.chat("hello world " * 2500, max_tokens=100))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        with stopped(busiest_thread(service.process.pid), service):
            begin_ts = time.monotonic()
            asking.join(PATIENCE_S)
            assert [answer.status_code for answer in answers] == [503]
            # Three seconds without a step, or four times the slowest one.
            assert time.monotonic() - begin_ts < 15
        service.process.wait(PATIENCE_S)
    finally:
        service.process.kill()
        service.process.wait()
        asking.join()
    log = service.log.read_text()
    assert "the engine hangs: no step has ended for" in log
    assert "1 prefilling" in log
    assert "hello world" not in log
