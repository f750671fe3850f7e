"""What lives as long as the server: runtime, ledger, telemetry, last-used times, desk of limits, a watch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable

from accounts.last_used import LastUsedBuffer
from accounts.limits.desk import SharedLimitDesk
from inference.ledger.generation_ledger import GenerationLedger
from inference.runtime import Runtime, RuntimeState
from inference.telemetry.pipeline import TelemetryPipeline

_log = logging.getLogger(__name__)

WATCH_EVERY_S = 0.5


class SiteLifespan:
    """Implements the server adapters' Lifespan: start, begin_drain, stop."""

    def __init__(
        self,
        runtime: Runtime,
        ledger: GenerationLedger,
        last_used: LastUsedBuffer,
        limit_desk: SharedLimitDesk,
        telemetry: TelemetryPipeline,
        *,
        prepare_database: Callable[[], Awaitable[None]],
    ) -> None:
        """`prepare_database` is done while the model loads; where it fails, Celery does it later."""
        self._prepare_database = prepare_database
        self._runtime = runtime
        self._ledger = ledger
        self._last_used = last_used
        self._limit_desk = limit_desk
        self._telemetry = telemetry
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._telemetry.start()
        await self._ledger.start()
        await self._runtime.start()
        self._tasks = [
            asyncio.create_task(self._last_used.run()),
            asyncio.create_task(self._limit_desk.run()),
            asyncio.create_task(self._watch()),
            asyncio.create_task(self._prepare()),
        ]

    def begin_drain(self) -> None:
        self._runtime.begin_drain()

    def begin_stop(self) -> None:
        self._runtime.begin_stop()

    async def stop(self) -> None:
        await self._runtime.stop()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        # Last: the ends of requests that the stop itself has ended are records too.
        await self._ledger.stop()
        # Waits for sinks: not on the event loop.
        await asyncio.to_thread(self._telemetry.stop)

    async def _prepare(self) -> None:
        try:
            await self._prepare_database()
        except Exception as problem:
            _log.warning("the database could not be prepared: %s", type(problem).__name__)

    async def _watch(self) -> None:
        """A process whose engine is gone or hangs has no use: it ends in good order, and the supervisor
        starts a new one."""
        while self._runtime.state in (RuntimeState.LOADING, RuntimeState.READY):
            self._runtime.watch()
            engine = self._runtime.engine
            if engine is not None and not engine.is_alive:
                break
            await asyncio.sleep(WATCH_EVERY_S)
        if self._runtime.state in (RuntimeState.DRAINING, RuntimeState.STOPPED):
            return
        _log.critical("the engine is gone (%s): this process ends", self._runtime.state.value)
        os.kill(os.getpid(), signal.SIGTERM)
