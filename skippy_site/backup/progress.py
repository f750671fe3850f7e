"""Says now and then how far long work has got."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from skippy_site.supervisor.console import Console

_EVERY_S = 5.0


class Progress:
    """Counts the bytes that pass; a line every few seconds. `total` is what they may come to, in words."""

    def __init__(
        self, console: Console, title: str, total: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._now = now
        self._told_ts = now()

    def watch(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        num_bytes = 0
        for chunk in chunks:
            num_bytes += len(chunk)
            if self._now() - self._told_ts >= _EVERY_S:
                self._told_ts = self._now()
                self._console.line(f"  … {self._title}: {size_text(num_bytes)} {self._total}")
            yield chunk


def size_text(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
