"""A request ends in many ways and places: an answer, an error, a denial, a client that goes, a task that is
cancelled, a service that stops. Policies hear of exactly one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from hooks.contracts.exchange import TerminalOutcome
from hooks.guard.tasks import TerminalTasks

CANCELLED = TerminalOutcome(kind="cancelled", status=499)


class TerminalGuard:
    """Armed when it is made, for the event loop that runs then. `fire` is what is done with the outcome; it
    runs on a task of its own. None: nobody wants to hear, and only the first outcome is kept.

    `conclude` may be called from any thread: an exchange that everybody has dropped is noticed wherever it is
    collected.
    """

    def __init__(
        self, fire: Callable[[TerminalOutcome], Coroutine[Any, Any, None]] | None, tasks: TerminalTasks
    ) -> None:
        self._fire = fire
        self._tasks = tasks
        self._lock = threading.Lock()
        self._outcome: TerminalOutcome | None = None
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def __repr__(self) -> str:
        return f"<TerminalGuard {'armed' if self._outcome is None else self._outcome.kind}>"

    @property
    def outcome(self) -> TerminalOutcome | None:
        """None: the request goes on."""
        return self._outcome

    def conclude(self, outcome: TerminalOutcome) -> bool:
        """Whether this was the first one, which alone counts."""
        with self._lock:
            if self._outcome is not None:
                return False
            self._outcome = outcome
        if self._fire is None:
            return True
        if self._loop is None or self._loop.is_closed():
            self._tasks.skip()
        elif self._loop is _running_loop():
            self._start()
        else:
            try:
                self._loop.call_soon_threadsafe(self._start)
            except RuntimeError:  # closed meanwhile
                self._tasks.skip()
        return True

    def _start(self) -> None:
        assert self._fire is not None
        assert self._outcome is not None
        self._tasks.start(self._fire(self._outcome))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
