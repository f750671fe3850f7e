"""Policies at TERMINAL run when nobody waits for them any more: their tasks are kept here, so that they are
not collected half-way, and so that a service that stops can wait for them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TerminalStatistics:
    """`num_skipped` came when there was no event loop any more to run them on."""

    num_running: int
    num_started: int
    num_failed: int
    num_skipped: int


class TerminalTasks:
    """Event loop only."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._num_started = 0
        self._num_failed = 0
        self._num_skipped = 0

    def __repr__(self) -> str:
        return f"<TerminalTasks {len(self._running)} of {self._num_started} running>"

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        self._num_started += 1
        task.add_done_callback(self._ended)

    def skip(self) -> None:
        self._num_skipped += 1

    async def drain(self, timeout_s: float) -> int:
        """Waits until nothing runs, at most so long; what runs then is cancelled. How many those are."""
        deadline_ts = time.monotonic() + timeout_s
        while self._running and (left_s := deadline_ts - time.monotonic()) > 0:
            await asyncio.wait(set(self._running), timeout=left_s)
        left = set(self._running)
        for task in left:
            task.cancel()
        return len(left)

    @property
    def statistics(self) -> TerminalStatistics:
        return TerminalStatistics(len(self._running), self._num_started, self._num_failed, self._num_skipped)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._num_failed += 1
            # Its message may hold what somebody wrote.
            logger.error("Policies at the end of a request failed: %s", type(error).__name__)

    def check_integrity(self) -> None:
        assert self._num_failed + len(self._running) <= self._num_started
