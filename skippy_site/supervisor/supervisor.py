"""Starts services and steps in the order that it is told, keeps services alive, and stops them all.

It knows no service by name: deployment.py tells the story, this runs it, once, and ends in one of
two ways. Somebody asks (SIGTERM, SIGINT, SIGHUP): everything stops, applications before the servers
that they need, and the exit code is 0; asked again, what is just stopping is hurried. Or something
cannot be kept running: everything stops likewise, the last line says what it was, the code is 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skippy_site.supervisor.backoff import RestartPolicy
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.kept_service import KeptService, Service
from skippy_site.supervisor.log_files import LogLimits, keep_rotating, last_line
from skippy_site.supervisor.problems import StartProblem
from skippy_site.supervisor.process import Child, Command, exit_text

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that must be done once before the next thing starts."""

    name: str
    command: Command
    on_line: Callable[[str], None] | None = None
    """Gets each line of standard output, which then is not written to the log."""


class Supervisor:
    """One run, from the first step to the exit code."""

    def __init__(
        self,
        *,
        console: Console,
        policy: RestartPolicy | None = None,
        log_limits: LogLimits | None = None,
    ) -> None:
        self._console = console
        self._inherited_fds: tuple[int, ...] = ()
        self._policy = policy or RestartPolicy()
        self._log_limits = log_limits or LogLimits()
        self._kept: list[KeptService] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._log_files: set[Path] = set()
        self._asked_to_stop = asyncio.Event()
        self._gave_up = asyncio.Event()
        self._hurry = asyncio.Event()
        self._has_started = False
        self._is_stopping = False

    def __repr__(self) -> str:
        return f"Supervisor({self._kept})"

    def hand_down(self, descriptor: int) -> None:
        """Let every child that is started from now on inherit `descriptor` (lock.py says why)."""
        self._inherited_fds = (*self._inherited_fds, descriptor)

    async def run(self, start_up: Callable[[Supervisor], Awaitable[None]]) -> int:
        """Run `start_up`, keep what it started until the end, stop it. Returns the exit code."""
        problem: StartProblem | None = None
        with _signals_handled(self._on_signal):
            rotating = asyncio.create_task(keep_rotating(self._log_files, self._log_limits))
            try:
                await self._until_end(start_up)
            except StartProblem as found:
                problem = found
            finally:
                await self._stop_all()
                await _cancelled(rotating)
        if problem is None:
            self._console.line("stopped")
            return 0
        self._console.line(f"{'Skippy stopped' if self._has_started else 'Skippy cannot start'}: {problem}")
        return 1

    async def start(self, service: Service) -> None:
        """Start a service and wait until it is ready. Raises StartProblem if it is given up."""
        kept = KeptService(
            service, console=self._console, policy=self._policy, inherited_fds=self._inherited_fds
        )
        keeper = asyncio.create_task(self._keep(kept))
        self._kept.append(kept)
        self._keepers.append(keeper)
        ready = asyncio.create_task(kept.is_ready.wait())
        try:
            await asyncio.wait({keeper, ready}, return_when=asyncio.FIRST_COMPLETED)
            if keeper.done():
                keeper.result()
        finally:
            ready.cancel()

    async def run_step(self, step: Step) -> None:
        """Run a step to its end, with signs of life. Raises StartProblem if it fails."""
        with self._console.waiting(step.name):
            exit_code = await self.run_command(step.command, on_line=step.on_line)
        if exit_code != 0:
            said = last_line(step.command.log_file)
            raise StartProblem(
                f"{step.name} failed ({exit_text(exit_code)}); its log: {step.command.log_file}"
                f"{'; last line there: ' if said else ''}{said}"
            )

    async def run_command(self, command: Command, *, on_line: Callable[[str], None] | None = None) -> int:
        """Run a command to its end and return its exit code; cancelled, the command is ended too."""
        self._log_files.add(command.log_file)
        child = Child(command, inherited_fds=self._inherited_fds, reads_output=on_line is not None)
        try:
            if on_line is not None:
                async for line in child.output_lines():
                    on_line(line)
            return await child.wait()
        except BaseException:
            await child.stop(hurry=self._hurry)
            raise

    async def _keep(self, kept: KeptService) -> None:
        self._log_files.add(kept.service.log_file)
        try:
            await kept.keep()
        finally:
            self._gave_up.set()

    async def _until_end(self, start_up: Callable[[Supervisor], Awaitable[None]]) -> None:
        starting = asyncio.ensure_future(start_up(self))
        asked = asyncio.create_task(self._asked_to_stop.wait())
        gave_up = asyncio.create_task(self._gave_up.wait())
        try:
            await asyncio.wait({starting, asked, gave_up}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._has_started = True
                await asyncio.wait({asked, gave_up}, return_when=asyncio.FIRST_COMPLETED)
            for keeper in self._keepers:
                if keeper.done():
                    keeper.result()
        finally:
            await _cancelled(starting, asked, gave_up)

    async def _stop_all(self) -> None:
        self._is_stopping = True
        await _cancelled(*self._keepers)
        with self._console.waiting("stopping") as waiting:
            for tier in sorted({kept.service.tier for kept in self._kept}, reverse=True):
                concerned = [kept for kept in self._kept if kept.service.tier == tier]
                waiting.detail = ", ".join(kept.service.name for kept in concerned)
                # Who hurried the application to its end did not mean the database.
                self._hurry.clear()
                await asyncio.gather(*(kept.stop(hurry=self._hurry) for kept in concerned))

    def _on_signal(self) -> None:
        if self._asked_to_stop.is_set() or self._is_stopping:
            self._console.line("stopping at once")
            self._hurry.set()
            return
        self._console.line("stopping: running answers may end (ask again to cut them)")
        self._asked_to_stop.set()


@contextlib.contextmanager
def _signals_handled(handler: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    # `nohup` means what it says: who ignores hangups goes on without a terminal.
    ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [number for number in _SIGNALS if not (number == signal.SIGHUP and ignores_hangup)]
    for number in handled:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have cleaned up; what they raise was seen elsewhere."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
