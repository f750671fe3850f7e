#!/usr/bin/env python3
"""Our server with a watch beside it, for overload.py and fairness.py: what it did, by its own clock.

    observed_server.py serve ORDER         as `manage.py serve`, with the next line as the web process
    observed_server.py web SOCKET ORDER    the web process; who connects to SOCKET gets one JSON reading

A reading has all that happened since the one before: the events of admission as they are logged, and
of each answer the time from the last byte of its request's body to its status.

ORDER is `product`, or `arrival`: then, in this process only, the queue's order is replaced by that of
arrival, first come, first served. It is what fairness is compared with.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))

SOCKET_NAME = "watch.socket"
ORDERS = ("product", "arrival")


class Watch(logging.Handler):
    """A handler of the log of admission's events, and an ASGI application around the server's."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._events: list[tuple[float, str, dict[str, Any]]] = []
        self._answers: list[tuple[float, int, float]] = []
        self._found: dict[type, Any] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """A line of LogRecorder: the event's name, and its numbers as JSON."""
        if isinstance(record.args, tuple) and len(record.args) == 2:
            name, told = record.args
            with self._lock:
                self._events.append((time.monotonic(), str(name), json.loads(str(told))))

    def around(self, application: Any) -> Any:
        """`application`, timed: from the last byte of the body to the status."""

        async def timed(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await application(scope, receive, send)
                return
            body_ts: float | None = None

            async def receive_timed() -> Any:
                nonlocal body_ts
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body", False):
                    body_ts = time.monotonic()
                return message

            async def send_timed(message: Any) -> None:
                await send(message)
                if message["type"] == "http.response.start" and body_ts is not None:
                    now_ts = time.monotonic()
                    with self._lock:
                        self._answers.append((now_ts, message["status"], now_ts - body_ts))

            await application(scope, receive_timed, send_timed)

        return timed

    def reading(self) -> dict[str, Any]:
        from inference.admission.controller import AdmissionController
        from inference.engine.thread import EngineThread

        statistics = self._only(EngineThread).statistics
        controller = self._only(AdmissionController)
        controller.check_integrity()
        admission = controller.statistics()
        with self._lock:
            events, self._events = self._events, []
            answers, self._answers = self._answers, []
        return {
            "now_ts": time.monotonic(),
            "cpu_s": time.process_time(),
            "num_generated_tokens": statistics.total_generated_tokens,
            "num_prefill_tokens": statistics.total_prefill_tokens,
            "num_steps": statistics.total_steps,
            "step_phases_s": asdict(statistics.total_phases),
            "num_decoding": statistics.num_decoding,
            "num_prefilling": statistics.num_prefilling,
            "num_held": statistics.num_held,
            "num_granted": admission.num_granted,
            "num_waiting": admission.queue.num_waiting + admission.queue.num_starting,
            "events": events,
            "answers": answers,
        }

    def _only(self, kind: type) -> Any:
        """The one object of this class in the process."""
        if kind not in self._found:
            gc.unfreeze()  # what is frozen is not told
            self._found[kind] = next(one for one in gc.get_objects() if isinstance(one, kind))
        return self._found[kind]

    def serve(self, path: Path) -> None:
        """One reading for each connection, for ever."""
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(json.dumps(self.reading()).encode())


def read_watch(home: Path) -> dict[str, Any]:
    """What happened since the last reading in the server whose state folder this is."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(home / SOCKET_NAME))
        data = b""
        while part := connection.recv(1 << 16):
            data += part
    reading: dict[str, Any] = json.loads(data)
    return reading


async def until_idle(home: Path) -> None:
    """Nobody runs or waits in that server."""
    while (reading := await asyncio.to_thread(read_watch, home))["num_granted"] or reading["num_waiting"]:
        await asyncio.sleep(0.1)


def serve_by_arrival() -> None:
    """First come, first served, and nobody goes after a newcomer."""
    from inference.admission import queue
    from inference.admission.estimator import NO_WORK, Work
    from inference.admission.waiter import Waiter

    class ByArrival(queue.AdmissionQueue):
        def shortlist(self, num_free_tokens: int, served: queue.Served) -> queue.Shortlist:
            first = next(iter([*self._starting, *self._waiting]), None)
            if first is None:
                return queue.NOBODY
            if first.num_needed_tokens > num_free_tokens:
                return queue.WAIT_FOR_SENIOR
            return queue.Shortlist(queue.SortedPrompts((first,), (0,)), (0,))

        def work_behind(self, newcomer: Waiter, served: queue.Served) -> Work:
            return NO_WORK

    from inference.admission import controller

    controller.AdmissionQueue = ByArrival  # type: ignore[misc]


def main() -> int:
    if sys.argv[1] == "serve":
        from skippy_site.state import StateFolder
        from skippy_site.supervisor.programs import Programs
        from skippy_site.supervisor.serve import serve

        state = StateFolder.from_environment()
        web = (
            sys.executable,
            str(Path(__file__).resolve()),
            "web",
            str(state.root / SOCKET_NAME),
            sys.argv[2],
        )
        return serve(programs=replace(Programs.of_this_checkout(state), server=web))
    if sys.argv[3] == "arrival":
        serve_by_arrival()
    from skippy_site.servers import __main__ as web_process

    watch = Watch()
    path = Path(sys.argv[2])
    path.unlink(missing_ok=True)
    choose = web_process.choose_server

    def choose_watched(name: str) -> Callable[..., int]:
        serve_with = choose(name)

        def serve_watched(application: Any, lifespan: Any, config: Any) -> int:
            events = logging.getLogger("inference.events")
            events.addHandler(watch)
            # The watch wants them all; the lines of the log stay what they are in earnest.
            events.setLevel(logging.DEBUG)
            events.propagate = False
            threading.Thread(target=watch.serve, args=(path,), name="watch", daemon=True).start()
            return serve_with(watch.around(application), lifespan, config)

        return serve_watched

    web_process.choose_server = choose_watched
    return web_process.main()


if __name__ == "__main__":
    sys.exit(main())
