"""Time as a seam: what waits and measures is tested with a clock that the test moves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds for intervals (`_ts`), Unix seconds for what others read."""

    def monotonic(self) -> float: ...

    def unix_time(self) -> float: ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def unix_time(self) -> float:
        return time.time()
