"""What lives as long as the server: runtime, ledger, telemetry, limits, policies, webhooks, a watch."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable

from accounts.last_used import LastUsedBuffer
from accounts.limits.desk import SharedLimitDesk
from hooks.store import PolicyStore
from inference.ledger.generation_ledger import GenerationLedger
from inference.ledger.live_listener import LiveListener
from inference.runtime import Runtime, RuntimeState
from inference.telemetry.pipeline import TelemetryPipeline
from skippy_site.hook_desk import PolicyFeed
from skippy_site.maintenance import MaintenanceWatch

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
        live_listener: LiveListener,
        policy_store: PolicyStore,
        policy_feed: PolicyFeed,
        maintenance_watch: MaintenanceWatch,
        prepare_database: Callable[[], Awaitable[None]],
    ) -> None:
        """`prepare_database` is done while the model loads; where it fails, Celery does it later."""
        self._prepare_database = prepare_database
        self._runtime = runtime
        self._ledger = ledger
        self._last_used = last_used
        self._limit_desk = limit_desk
        self._telemetry = telemetry
        self._live_listener = live_listener
        self._policy_store = policy_store
        self._policy_feed = policy_feed
        self._maintenance_watch = maintenance_watch
        self._tasks: list[asyncio.Task[None]] = []
        self._limiting: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._telemetry.start()
        await self._ledger.start()
        await self._policy_store.start()
        await self._policy_feed.start()
        await self._maintenance_watch.start()
        await self._runtime.start()
        self._limiting = [asyncio.create_task(self._limit_desk.run())]
        self._tasks = [
            asyncio.create_task(self._last_used.run()),
            asyncio.create_task(self._watch()),
            asyncio.create_task(self._prepare()),
            asyncio.create_task(self._live_listener.run()),
            asyncio.create_task(self._policy_store.run()),
            asyncio.create_task(self._maintenance_watch.run()),
        ]

    def begin_drain(self) -> None:
        self._runtime.begin_drain()

    def begin_stop(self) -> None:
        self._runtime.begin_stop()

    async def stop(self) -> None:
        await self._runtime.stop()
        await _end(self._tasks)
        # Last: the ends of requests that the stop itself has ended are records too, and what these had
        # reserved of limits is given back once they are safe.
        await self._ledger.stop()
        await self._policy_feed.stop()
        await _end(self._limiting)
        # Waits for sinks: not on the event loop.
        await asyncio.to_thread(self._telemetry.stop)

    async def _prepare(self) -> None:
        try:
            await self._prepare_database()
        except Exception as problem:
            _log.warning("the database could not be prepared: %s", type(problem).__name__)

    async def _watch(self) -> None:
        """A process whose engines are gone or hang has no use: it ends in good order, and the supervisor
        starts a new one."""
        is_settled = False
        while self._runtime.state not in (RuntimeState.DRAINING, RuntimeState.STOPPED):
            if self._runtime.state is RuntimeState.READY and not is_settled:
                is_settled = True
                _settle_memory()
            self._runtime.watch()
            if cause := self._runtime.must_end:
                _log.critical("the engine is gone (%s): this process ends", cause)
                os.kill(os.getpid(), signal.SIGTERM)
                return
            await asyncio.sleep(WATCH_EVERY_S)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _settle_memory() -> None:
    """What there is when the service becomes ready lives as long as the process: the collector need
    not walk through all of Django again and again, with every stream standing still meanwhile."""
    gc.collect()
    gc.freeze()
