from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skippy_site.state import StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.lock import FileLock, written_pid
from skippy_site.supervisor.problems import AlreadyRunning
from skippy_site.supervisor.remains import Patience, lock_holders, take_over

# Locks the file as a child would, by an inherited descriptor, and says so.
HOLD = (sys.executable, "-S", "-c", "import time; print('held', flush=True); time.sleep(60)")


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    state = StateFolder(tmp_path)
    state.make()
    return state


def start_holder(lock: FileLock) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(HOLD, pass_fds=[lock.descriptor], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
    return holder


def test_a_lock_is_had_by_one_and_its_file_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    lock = FileLock.try_acquire(path)
    assert lock is not None

    assert FileLock.try_acquire(path) is None
    lock.release()
    lock.release()

    assert not path.exists()
    again = FileLock.try_acquire(path)
    assert again is not None
    again.release()


def test_a_stale_file_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    path.write_text("1\n")

    lock = FileLock.try_acquire(path)

    assert lock is not None
    lock.write_pid()
    assert written_pid(path) != 1
    lock.release()


async def test_a_living_supervisor_is_named(state: StateFolder) -> None:
    locks = await take_over(state, Console())

    with pytest.raises(AlreadyRunning, match=rf"process {written_pid(state.run / 'supervisor.lock')}\)"):
        await take_over(state, Console(), Patience(supervisor_s=0.1))

    locks.release()
    assert list(state.run.iterdir()) == []


async def test_children_that_are_still_ending_are_waited_for_and_then_ended(state: StateFolder) -> None:
    path = state.run / "children.lock"
    lock = FileLock.try_acquire(path)
    assert lock is not None
    child = start_holder(lock)
    assert [holder.pid for holder in lock_holders(path)] == [child.pid]
    # As at the death of a supervisor: its descriptor is closed, the child's is not.
    lock.abandon()

    locks = await take_over(state, Console(), Patience(children_s=0.2))

    assert child.wait(5) == -9
    locks.release()
    assert list(state.run.iterdir()) == []
