"""A place where telemetry goes, and the bounded queue with a thread in front of it.

Serving must never wait for a collector that is slow or away. What comes is put into a queue of
bounded length without waiting; a thread hands it on in batches. Where the queue is full the newcomer
is dropped and counted, and where a batch cannot be delivered it is dropped and counted as well: what
may not be lost is in the ledger, not here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.domain.telemetry_event import TelemetryEvent
from inference.domain.telemetry_level import TelemetryLevel

_log = logging.getLogger(__name__)

MAX_QUEUED = 1_024
MAX_BATCH = 128
"""Both as in the earlier implementation."""
WARN_EVERY_S = 60.0


class TelemetrySink(Protocol):
    """Takes batches, on a thread of its own. May block, and may raise: the batch is then lost."""

    name: str
    gather_s: float
    """How long events may wait for others, where each delivery has its price."""

    def deliver(self, batch: Sequence[TelemetryEvent]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SinkStatistics:
    """`num_queued` waits now; the totals only grow. Of `total_offered`, each event is queued, in the
    hands of the sink, delivered, dropped (the queue was full) or failed (the sink could not)."""

    name: str
    num_queued: int
    num_in_hand: int
    max_queued: int
    total_offered: int
    total_delivered: int
    total_dropped: int
    total_failed: int


class SinkWorker:
    """The queue and the thread of one sink. `offer` is for any thread and never waits."""

    def __init__(self, sink: TelemetrySink, *, level: TelemetryLevel, max_queued: int = MAX_QUEUED) -> None:
        self.level = level
        self._sink = sink
        self._max_queued = max_queued
        self._queue: deque[TelemetryEvent] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._num_in_hand = 0
        self._total_offered = 0
        self._total_delivered = 0
        self._total_dropped = 0
        self._total_failed = 0
        self._warned_ts = -WARN_EVERY_S
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        s = self.statistics()
        return (
            f"<SinkWorker {s.name} {s.num_queued}/{s.max_queued} queued, {s.total_delivered} delivered, "
            f"{s.total_dropped} dropped, {s.total_failed} failed>"
        )

    def start(self) -> None:
        # A daemon: a collector that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=f"telemetry-{self._sink.name}", daemon=True)
        self._thread.start()

    def offer(self, event: TelemetryEvent) -> None:
        """Queue it, or drop it where the queue is full."""
        with self._changed:
            self._total_offered += 1
            if len(self._queue) >= self._max_queued or self._is_closing:
                self._total_dropped += 1
                return
            self._queue.append(event)
            # The thread waits for a first one, or for a batch; to wake it for others costs more than they do.
            if len(self._queue) == 1 or len(self._queue) % MAX_BATCH == 0:
                self._changed.notify()

    def stop(self, *, limit_s: float) -> None:
        """Deliver what is queued, for at most so long, and end. What is left then counts as dropped."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(limit_s)
        with self._changed:
            self._total_dropped += len(self._queue)
            self._queue.clear()

    def statistics(self) -> SinkStatistics:
        with self._changed:
            return SinkStatistics(
                name=self._sink.name,
                num_queued=len(self._queue),
                num_in_hand=self._num_in_hand,
                max_queued=self._max_queued,
                total_offered=self._total_offered,
                total_delivered=self._total_delivered,
                total_dropped=self._total_dropped,
                total_failed=self._total_failed,
            )

    def check_integrity(self) -> None:
        """AssertionError where events are unaccounted for, or more are queued than may be."""
        s = self.statistics()
        accounted = s.num_queued + s.num_in_hand + s.total_delivered + s.total_dropped + s.total_failed
        if accounted != s.total_offered:
            raise AssertionError(f"{s.total_offered} offered, {accounted} accounted for: {self!r}")
        if s.num_queued > s.max_queued:
            raise AssertionError(f"too many queued: {self!r}")

    def _run(self) -> None:
        while batch := self._take():
            try:
                self._sink.deliver(batch)
            except Exception as error:
                self._settle(is_delivered=False)
                self._warn(error)
            else:
                self._settle(is_delivered=True)
        self._sink.close()

    def _take(self) -> list[TelemetryEvent]:
        """The next events, waited for; none once the worker closes and the queue is empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            if self._sink.gather_s:
                self._changed.wait_for(
                    lambda: len(self._queue) >= MAX_BATCH or self._is_closing, timeout=self._sink.gather_s
                )
            batch = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
            self._num_in_hand = len(batch)
            return batch

    def _settle(self, *, is_delivered: bool) -> None:
        with self._changed:
            if is_delivered:
                self._total_delivered += self._num_in_hand
            else:
                self._total_failed += self._num_in_hand
            self._num_in_hand = 0

    def _warn(self, error: Exception) -> None:
        """Now and then, and the class only: what a sink says may repeat what it was given."""
        now_ts = time.monotonic()
        if now_ts - self._warned_ts >= WARN_EVERY_S:
            self._warned_ts = now_ts
            _log.warning("telemetry for %s is being lost: %s", self._sink.name, type(error).__name__)
