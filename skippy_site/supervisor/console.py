"""Tells the person at the terminal what happens, in short lines with the time since the start.

Long steps say that they go on: silence looks like a hang. A terminal that is gone (a closed ssh
session) must never take the service with it, so failing writes are ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

_FIRST_REMINDER_S = 4.0
_REMINDER_S = 10.0


@dataclass(slots=True)
class Waiting:
    """A wait in progress; `detail` may be changed while it lasts and is shown with the next line."""

    title: str
    detail: str = ""
    started_ts: float = field(default_factory=time.monotonic)

    def line(self) -> str:
        waited = f"{time.monotonic() - self.started_ts:.0f} s"
        return f"  … {self.title} ({waited}{': ' if self.detail else ''}{self.detail})"


class Console:
    """Writes to standard output; problems go there too, so that the order of lines is the truth."""

    def __init__(self, stream: TextIO | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stdout
        self._now = now
        self._started_ts = now()

    def line(self, text: str) -> None:
        """One line after the elapsed time."""
        self._write(f"[{self._now() - self._started_ts:6.1f} s] {text}\n")

    def block(self, lines: list[str]) -> None:
        """Several lines that belong together and must not be overlooked."""
        width = max(len(line) for line in lines)
        bar = "─" * (width + 4)
        self._write("\n".join(["", bar, *(f"  {line}".rstrip() for line in lines), bar, "", ""]))

    @contextlib.contextmanager
    def waiting(self, title: str) -> Iterator[Waiting]:
        """Says every few seconds that `title` still goes on, for as long as the block lasts."""
        waiting = Waiting(title)
        reminder = asyncio.get_running_loop().create_task(self._remind(waiting))
        try:
            yield waiting
        finally:
            reminder.cancel()

    async def _remind(self, waiting: Waiting) -> None:
        await asyncio.sleep(_FIRST_REMINDER_S)
        while True:
            self.line(waiting.line())
            await asyncio.sleep(_REMINDER_S)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
