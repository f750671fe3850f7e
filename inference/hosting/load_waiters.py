"""Requests that wait for a model to be loaded, each with its own patience.

A waiter is given its lease at the moment at which the model is ready, and not only woken: between the two
the model could be gone again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from inference.domain.clock import Clock
from inference.domain.errors import SkippyError
from inference.hosting.lease import ModelLease


class LoadWaiters:
    """Of one model, for one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[ModelLease]] = deque()

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    async def wait(self, limit_s: float | None) -> ModelLease:
        """May be cancelled at any time. Raises what `fail` was given, and TimeoutError after `limit_s`."""
        began_ts = self._clock.monotonic()
        waiter: asyncio.Future[ModelLease] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(limit_s):
                lease = await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                waiter.result().release()  # it came in the same moment
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        lease.waited_s = self._clock.monotonic() - began_ts
        return lease

    def grant(self, make_lease: Callable[[], ModelLease]) -> None:
        """The model is there: everybody who still waits gets a lease."""
        for waiter in self._take():
            waiter.set_result(make_lease())

    def fail(self, error: SkippyError) -> None:
        """It will not be there: everybody who waits is told so."""
        for waiter in self._take():
            waiter.set_exception(error)

    def _take(self) -> list[asyncio.Future[ModelLease]]:
        waiting, self._waiting = self._waiting, deque()
        return [waiter for waiter in waiting if not waiter.done()]

    def __repr__(self) -> str:
        return f"<LoadWaiters: {len(self._waiting)}>"
