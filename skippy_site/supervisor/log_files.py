"""Bounds the log files that children write to, and reads their last words.

Children get the file itself as their standard error, opened for appending, and not a pipe: a child
never waits for the supervisor to read, and what it says after the supervisor's death is kept. So a
file is rotated by copying and cutting it (logrotate's `copytruncate`); a line that is written
between the two steps may be lost, which is the price.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TAIL_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """One log takes at most about (num_kept + 1) × max_bytes."""

    max_bytes: int = 16 * 1024 * 1024
    num_kept: int = 3
    check_every_s: float = 2.0


def rotate(file: Path, limits: LogLimits) -> bool:
    """Rotate `file` to file.1, file.2, … if it is too long; whether it was."""
    try:
        if file.stat().st_size <= limits.max_bytes:
            return False
    except OSError:
        return False
    for number in range(limits.num_kept, 1, -1):
        with contextlib.suppress(FileNotFoundError):
            _kept(file, number - 1).replace(_kept(file, number))
    draft = _kept(file, 1)
    draft.unlink(missing_ok=True)
    _copy_tail(file, draft, max_bytes=limits.max_bytes)
    os.truncate(file, 0)
    return True


def last_line(file: Path) -> str:
    """The last line that is not empty, at most 500 characters; empty if there is none."""
    try:
        with file.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - _TAIL_BYTES))
            tail = handle.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


async def keep_rotating(files: Iterable[Path], limits: LogLimits) -> None:
    """Look after `files` until cancelled. A full disk stops the rotation, never the service."""
    while True:
        await asyncio.sleep(limits.check_every_s)
        for file in tuple(files):
            with contextlib.suppress(OSError):
                rotate(file, limits)


def _copy_tail(file: Path, copy: Path, *, max_bytes: int) -> None:
    """Keep the end alone: a child that floods its log must not fill the disk through its copies."""
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with file.open("rb") as source, os.fdopen(descriptor, "wb") as target:
        source.seek(0, os.SEEK_END)
        source.seek(max(0, source.tell() - max_bytes))
        shutil.copyfileobj(source, target)


def _kept(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")
