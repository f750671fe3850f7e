"""From the first connection to the exit code: one story for both servers.

Daphne has no lifespan and cuts every stream on SIGTERM; uvicorn exits by the signal that stopped
it. Here a stop goes the same way whatever serves:

1. first SIGTERM or SIGINT: readiness goes red, idle connections close, whatever arrives is 503;
   running answers have `drain_grace_s` to end by themselves;
2. grace over, or a second signal: what still runs is told to end in-band, then cancelled;
3. last answer out, or a third signal: the listeners close, connections are cut, `Lifespan.stop`.

The listeners stay open through 1 and 2, so that clients and load balancers are told "503, retry"
rather than refused without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from skippy_site.servers.connections import Connections
from skippy_site.servers.contract import EndsAnswers, Lifespan, ListenConfig

_log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXIT_PATIENCE_S = 5.0


class Front(Protocol):
    """The server's side of the story, as an adapter implements it."""

    connections: Connections

    async def open(self) -> None:
        """Accept connections from now on."""

    def begin_drain(self) -> None:
        """Close what is open without an answer to wait for: WebSockets."""

    def close_listeners(self) -> None: ...


class StopRequests:
    """Counts stop signals: each one means more hurry than the one before."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.hurry = asyncio.Event()
        self.now = asyncio.Event()

    def note(self) -> None:
        for level in (self.drain, self.hurry, self.now):
            if not level.is_set():
                level.set()
                return

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While inside, the stop signals are noted here and do nothing else."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.note)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)


async def live(front: Front, lifespan: Lifespan, config: ListenConfig) -> int:
    """Serve until told to stop; returns the exit code."""
    stop = StopRequests()
    with stop.listening():
        sweeping = asyncio.create_task(front.connections.keep_sweeping())
        try:
            return await _live(front, lifespan, config, stop)
        finally:
            sweeping.cancel()


async def _live(front: Front, lifespan: Lifespan, config: ListenConfig, stop: StopRequests) -> int:
    await front.open()
    exit_code = 0
    starting = asyncio.ensure_future(lifespan.start())
    await _first_of(starting, stop.drain.wait())
    if starting.done() and (problem := starting.exception()) is not None:
        _log.error("the service could not start: %s", problem, exc_info=problem)
        exit_code = 1
    else:
        await stop.drain.wait()
    _log.info("stopping: %r", front.connections)
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting], timeout=config.last_words_s)
    _call(lifespan.begin_drain)
    front.connections.begin_drain()
    front.begin_drain()
    await _end_answers(front.connections, lifespan, config, stop)
    front.close_listeners()
    await _first_of(front.connections.wait_until_closed(), stop.now.wait(), timeout_s=config.last_words_s)
    front.connections.abort_all()
    return exit_code if await _stop(lifespan, config) else 1


async def _end_answers(
    connections: Connections, lifespan: Lifespan, config: ListenConfig, stop: StopRequests
) -> None:
    """Wait for running answers with less and less patience."""
    await _first_of(connections.wait_until_idle(), stop.hurry.wait(), timeout_s=config.drain_grace_s)
    if not connections.is_idle and isinstance(lifespan, EndsAnswers):
        _log.warning("ending what still runs: %r", connections)
        _call(lifespan.begin_stop)
        await _first_of(connections.wait_until_idle(), stop.now.wait(), timeout_s=config.last_words_s)
    if not connections.is_idle:
        _log.warning("cancelling what still runs: %r", connections)
        connections.cancel_running()
        await _first_of(connections.wait_until_idle(), stop.now.wait(), timeout_s=config.last_words_s)


def _call(step: Callable[[], None]) -> None:
    """A step of the stop whose failure must not prevent the others."""
    try:
        step()
    except Exception:
        _log.exception("a step of the stop failed")


async def _stop(lifespan: Lifespan, config: ListenConfig) -> bool:
    try:
        await asyncio.wait_for(lifespan.stop(), timeout=config.stop_timeout_s or None)
    except TimeoutError:
        _log.error("the service did not stop within %.0f s", config.stop_timeout_s)
        return False
    except Exception:
        _log.exception("the service did not stop cleanly")
        return False
    return True


async def _first_of(*awaitables: Awaitable[object], timeout_s: float | None = None) -> None:
    """Wait for the first to end. Coroutines are cancelled then; futures of the caller's are not."""
    owned = [asyncio.ensure_future(one) for one in awaitables]
    try:
        await asyncio.wait(owned, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one, given in zip(owned, awaitables, strict=True):
            if one is not given:
                one.cancel()


def finish_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Leave nothing running on a loop that has served its time, and close it."""
    leftover = asyncio.all_tasks(loop)
    for task in leftover:
        task.cancel()
    if leftover:
        loop.run_until_complete(asyncio.wait(leftover, timeout=1.0))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def leave_soon(exit_code: int, *, patience_s: float = EXIT_PATIENCE_S) -> None:
    """The last call of a server process: end with `exit_code` in a few seconds, come what may.

    The interpreter joins worker threads at exit, and one that is stuck in a database call or a
    synchronous view would keep a stopped service alive for ever. A stop signal that comes now must
    not turn a clean stop into a death by signal.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)

    def leave() -> None:
        _log.error("threads still run %.1f s after the stop: leaving without them", patience_s)
        logging.shutdown()
        os._exit(exit_code)

    timer = threading.Timer(patience_s, leave)
    timer.daemon = True
    timer.start()
