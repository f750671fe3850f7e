"""Lets one supervisor at a time use a state folder, whatever way the one before it ended.

A pid file lies after a crash: its number may be gone, or belong to somebody else. `flock(2)` does
not: the kernel drops it with the last descriptor, after SIGKILL too. Two files are locked:

    run/supervisor.lock   by the supervisor alone; its text is the pid, for the message only
    run/children.lock     by the supervisor and, through inherited descriptors, by every child

so that the next start can tell "somebody runs" from "somebody was killed, and what he started is
still ending" (remains.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from skippy_site.supervisor.problems import StartProblem


class FileLock:
    """An exclusive lock on a file that exists as long as the lock is held. Released exactly once."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def __repr__(self) -> str:
        return f"FileLock({self.path}, {'held' if self._descriptor is not None else 'released'})"

    @classmethod
    def try_acquire(cls, path: Path) -> FileLock | None:
        """The lock, or None while somebody else has it."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise StartProblem(f"{path} cannot be opened: {error.strerror}") from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            # The holder before us removes the file before it lets go: a lock on a removed file is
            # worth nothing, the next one would lock a new file of that name.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return cls(path, descriptor)
            os.close(descriptor)

    @property
    def descriptor(self) -> int:
        """For handing on to children, who then hold the lock too."""
        assert self._descriptor is not None, "released already"
        return self._descriptor

    def write_pid(self) -> None:
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Remove the file and let go. Only once nobody else holds the descriptor."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Let go of our descriptor alone, as a killed process does: who inherited it keeps the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def written_pid(path: Path) -> int | None:
    """The pid that the holder wrote into a lock file, for a message."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
