"""Shows that long steps are alive, where several run at once and each may take minutes.

On a terminal one line is rewritten each second; elsewhere (CI, a service's log) a line is added every
few seconds. What has ended is a line of its own. A preparation with nothing to do prints nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TextIO

TERMINAL_INTERVAL_S = 1.0
LOG_INTERVAL_S = 5.0
TICK_S = 0.25
NARROWEST_COLUMNS = 40


class Step(Protocol):
    """One long piece of work, as it is told to whoever waits for it."""

    def update(self, text: str) -> None:
        """How far it is now; called often, shown now and then."""

    def say(self, text: str) -> None:
        """Something worth a line of its own, now."""

    def end(self, text: str) -> None:
        """What came of it."""


class ReportedStep:
    """A step told through a plain function, for callers that have a log instead of a board."""

    def __init__(
        self,
        report: Callable[[str], None],
        *,
        interval_s: float = LOG_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._interval_s = interval_s
        self._clock = clock
        self._reported_ts = float("-inf")

    def update(self, text: str) -> None:
        now = self._clock()
        if now - self._reported_ts >= self._interval_s:
            self._reported_ts = now
            self._report(text)

    def say(self, text: str) -> None:
        self._report(text)

    def end(self, text: str) -> None:
        self._report(text)


class BoardStep:
    """A step on a board. Thread-safe."""

    def __init__(self, board: Board, name: str) -> None:
        self._board = board
        self.name = name
        self.text = ""

    def update(self, text: str) -> None:
        """Replace what is shown of the step; not printed at once."""
        self._board.start(self)
        self.text = text

    def say(self, text: str) -> None:
        """Print a line about the step now."""
        self._board.print_line(f"{self.name}: {text}")

    def end(self, text: str) -> None:
        """The step is done: it leaves the status line, and `text` stays as a line of its own."""
        self._board.remove(self)
        self.say(text)


class Board:
    """The running steps, in the order in which they began.

    `tick` prints when the interval has passed; within `ticking` a thread sees to it.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        is_terminal: bool,
        num_columns: int = 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._is_terminal = is_terminal
        self._num_columns = max(num_columns, NARROWEST_COLUMNS)
        self._clock = clock
        self._started_ts = clock()
        self._printed_ts = clock()
        self._running: list[BoardStep] = []
        self._has_status_line = False
        self._lock = threading.RLock()

    @property
    def interval_s(self) -> float:
        return TERMINAL_INTERVAL_S if self._is_terminal else LOG_INTERVAL_S

    def step(self, name: str) -> BoardStep:
        """A step that is shown from its first `update` on."""
        return BoardStep(self, name)

    def start(self, step: BoardStep) -> None:
        with self._lock:
            if step not in self._running:
                self._running.append(step)

    def remove(self, step: BoardStep) -> None:
        with self._lock:
            if step in self._running:
                self._running.remove(step)

    def print_line(self, text: str) -> None:
        with self._lock:
            self._clear_status_line()
            self._stream.write(f"{self._elapsed()}  {text}\n")
            self._stream.flush()

    def tick(self) -> None:
        """Show the running steps, if it is time."""
        with self._lock:
            now = self._clock()
            if not self._running or now - self._printed_ts < self.interval_s:
                return
            self._printed_ts = now
            shown = " · ".join(f"{step.name}: {step.text}" for step in self._running)
            if not self._is_terminal:
                self.print_line(shown)
                return
            line = f"{self._elapsed()}  {shown}"[: self._num_columns - 1]
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
            self._has_status_line = True

    @contextlib.contextmanager
    def ticking(self) -> Iterator[None]:
        """Keep the display alive while the caller's threads work."""
        has_ended = threading.Event()

        def run() -> None:
            while not has_ended.wait(TICK_S):
                self.tick()

        thread = threading.Thread(target=run, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()
            self.close()

    def close(self) -> None:
        """Leave the terminal's cursor at the start of a clean line."""
        with self._lock:
            self._running.clear()
            self._clear_status_line()
            self._stream.flush()

    def _clear_status_line(self) -> None:
        if self._has_status_line:
            self._stream.write("\r\x1b[K")
            self._has_status_line = False

    def _elapsed(self) -> str:
        elapsed_s = int(self._clock() - self._started_ts)
        return f"{elapsed_s // 60:3d}:{elapsed_s % 60:02d}"
