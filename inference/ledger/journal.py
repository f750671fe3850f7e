"""The file that survives what the database does not see: outages, and the death of this process.

One file for each process, append-only, locked while its process lives, so that the next process can
tell the journals of the dead. A line is given to the kernel before its request goes on, which is
enough for a process that is killed; `sync` is for what must survive the machine as well.

A write that fails (disk full) leaves the file as it was: what was written of a line is taken back, and
should that fail too, the next line starts on a line of its own.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

SUFFIX = ".journal"


class Disk(Protocol):
    """What the journal asks of the operating system; may raise OSError."""

    def write(self, descriptor: int, data: bytes) -> int: ...

    def sync(self, descriptor: int) -> None: ...

    def free_bytes(self, folder: Path) -> int: ...


class SystemDisk:
    """The real one."""

    def write(self, descriptor: int, data: bytes) -> int:
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def free_bytes(self, folder: Path) -> int:
        return shutil.disk_usage(folder).free


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a line is in its file."""

    offset: int
    num_bytes: int


class JournalFile:
    """This process's file. One writer at a time; `sync` may run on another thread."""

    def __init__(self, folder: Path, *, unix_time: float, disk: Disk | None = None) -> None:
        """Raises OSError where no file can be made."""
        self._disk = disk or SystemDisk()
        name = f"{int(unix_time * 1000):014d}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder / name
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.num_bytes = 0
        self._is_torn = False
        _sync_folder(folder)

    def append(self, line: bytes) -> Extent:
        """Write one line (or several) at the end. Raises OSError, and then nothing was written."""
        data = b"\n" + line if self._is_torn else line
        start, written = self.num_bytes, 0
        try:
            while written < len(data):
                written += self._disk.write(self._descriptor, data[written:])
        except OSError:
            self._take_back()
            raise
        self._is_torn = False
        self.num_bytes += len(data)
        return Extent(start + len(data) - len(line), len(line))

    def sync(self) -> None:
        """Return once all that was appended is on the disk. Raises OSError."""
        self._disk.sync(self._descriptor)

    def read(self, extent: Extent) -> bytes:
        return os.pread(self._descriptor, extent.num_bytes, extent.offset)

    def free_bytes(self) -> int:
        return self._disk.free_bytes(self.path.parent)

    def close(self, *, is_done: bool) -> None:
        """Let go of the file, and remove it where nothing in it is needed any more."""
        if is_done:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.num_bytes)
            os.lseek(self._descriptor, self.num_bytes, os.SEEK_SET)
        except OSError:
            self._is_torn = True
            self.num_bytes = os.lseek(self._descriptor, 0, os.SEEK_END)


class DeadJournal:
    """A journal whose process is gone, locked so that one process alone recovers it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def claim(cls, path: Path) -> DeadJournal | None:
        """None where its process lives, or another one is recovering it, or has done so."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if not path.exists():
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    def lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def release(self, *, is_done: bool) -> None:
        if is_done:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def dead_journals(folder: Path) -> Iterator[DeadJournal]:
    """Claim them one by one, oldest first."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        journal = DeadJournal.claim(path)
        if journal is not None:
            yield journal


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
