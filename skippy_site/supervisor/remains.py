"""Takes over a state folder, and waits for what a killed supervisor started to end.

The kernel tells orphans to end (process.py), and most do in milliseconds; Postgres writes a
checkpoint first. A start in the same second must not run into them: a held port, a held cluster.
Each of them still has the descriptor of run/children.lock, which is how they are found, grandchildren
too, without trusting any number that was written down.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skippy_site.state import StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.lock import FileLock, written_pid
from skippy_site.supervisor.problems import AlreadyRunning, StartProblem

_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait: for a supervisor that is just being killed, for its children, for Postgres."""

    supervisor_s: float = 1.5
    children_s: float = 3.0
    postgres_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that still holds the children's lock."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class StateLocks:
    """Both locks of a state folder."""

    supervisor: FileLock
    children: FileLock

    def release(self) -> None:
        """At the end, when no child is left."""
        self.children.release()
        self.supervisor.release()


async def take_over(state: StateFolder, console: Console, patience: Patience | None = None) -> StateLocks:
    """Both locks, once everything of an earlier run has ended.

    Raises AlreadyRunning while another supervisor lives, StartProblem where its remains do not end.
    """
    patience = patience or Patience()
    supervisor = await _supervisor_lock(state.run / "supervisor.lock", patience)
    try:
        supervisor.write_pid()
        children = await _children_lock(state.run / "children.lock", console, patience)
    except BaseException:
        supervisor.release()
        raise
    return StateLocks(supervisor, children)


async def _supervisor_lock(path: Path, patience: Patience) -> FileLock:
    deadline_ts = time.monotonic() + patience.supervisor_s
    while True:
        lock = FileLock.try_acquire(path)
        if lock is not None:
            return lock
        if time.monotonic() >= deadline_ts:
            raise AlreadyRunning(
                f"it already runs with this state folder (process {written_pid(path) or 'unknown'}): stop it "
                "first, or set SKIPPY_HOME to another folder"
            )
        await asyncio.sleep(_POLL_S)


async def _children_lock(path: Path, console: Console, patience: Patience) -> FileLock:
    started_ts = time.monotonic()
    with console.waiting("waiting for the processes of an earlier run to end") as waiting:
        while True:
            lock = FileLock.try_acquire(path)
            if lock is not None:
                return lock
            waited_s = time.monotonic() - started_ts
            holders = list(lock_holders(path))
            waiting.detail = ", ".join(f"{holder.name} {holder.pid}" for holder in holders)
            if waited_s > patience.children_s:
                for holder in holders:
                    # Never Postgres: it is writing what a shorter stop would have to recover.
                    if holder.name != "postgres":
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.kill(holder.pid, signal.SIGKILL)
            if waited_s > patience.postgres_s:
                raise StartProblem(f"processes of an earlier run do not end: {waiting.detail}")
            await asyncio.sleep(_POLL_S)


def lock_holders(path: Path) -> Iterator[Holder]:
    """Processes, other than this one, that have the file open. Those of other users are not seen."""
    try:
        wanted = path.stat()
    except FileNotFoundError:
        return
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if any(_is_same_file(descriptor, wanted) for descriptor in (process / "fd").iterdir()):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                yield Holder(int(process.name), name)
        except OSError:
            continue


def _is_same_file(descriptor: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), wanted)
    except OSError:
        return False
