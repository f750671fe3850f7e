"""Starts one process so that it cannot outlive its supervisor, and ends it for certain.

Two things go wrong with plain child processes. A supervisor that is killed with SIGKILL leaves them
running: so each child asks the kernel for a signal at its parent's death (PR_SET_PDEATHSIG, prctl(2)),
after its user was changed, because changing it clears the request. And a child that is asked to stop
may not: so a stop has a grace, after which the child's whole process group is killed.

The kernel sends that signal when the *thread* that started the child ends: start children from the
main thread only. Grandchildren get none; this service has none that outlive their parent (Celery
runs its tasks in its own process, Postgres watches its postmaster by itself).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.system_account import Account

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
_LIBC = ctypes.CDLL(None)
_POLL_S = 0.05
_HURRIED_GRACE_S = 3.0
_NOT_STARTED = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run, and how it is asked to end."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    """The child's whole environment. It may hold passwords: never shown."""
    folder: Path
    log_file: Path
    """Gets standard error, and standard output unless that is read by the supervisor."""
    account: Account | None = None
    """The user to run as; None: the supervisor's own."""
    stop_signal: signal.Signals = signal.SIGTERM
    hurry_signal: signal.Signals = signal.SIGTERM
    """Sent when a person asks a second time."""
    orphan_signal: signal.Signals = signal.SIGKILL
    """Sent by the kernel when the supervisor dies."""
    stop_grace_s: float = 10.0


class Child:
    """One started process. `exit_code` is None while it runs, negative for the signal that ended it."""

    def __init__(
        self, command: Command, *, inherited_fds: Sequence[int] = (), reads_output: bool = False
    ) -> None:
        """Start it now. Raises ServiceProblem if the program cannot be run at all."""
        self.command = command
        self.started_ts = time.monotonic()
        log = os.open(command.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        identity: dict[str, object] = {}
        if command.account is not None:
            identity = {"user": command.account.uid, "group": command.account.gid, "extra_groups": []}
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                command.argv,
                env=dict(command.environment),
                cwd=command.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if reads_output else log,
                stderr=log,
                pass_fds=tuple(inherited_fds),
                start_new_session=True,
                umask=0o077,
                preexec_fn=_dies_with_parent(command.orphan_signal),  # noqa: PLW1509
                **identity,  # type: ignore[call-overload]
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ServiceProblem(f"{command.argv[0]} cannot be started: {error}") from None
        finally:
            os.close(log)

    def __repr__(self) -> str:
        return f"Child({Path(self.command.argv[0]).name}, pid={self.pid}, exit_code={self.exit_code})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        """The exit code, once the process has ended and is no zombie any more.

        A zombie keeps its pid, and a server that finds its predecessor's pid alive refuses to start.
        What the process left in its group is killed before its pid, the group's name, is given back.
        """
        if self._process.returncode is None:
            await _ended(self._process.pid)
            self._kill_group()
        return self._process.wait()

    async def stop(self, *, hurry: asyncio.Event) -> int:
        """Ask, wait for the grace, then kill. `hurry` shortens what is left of the grace to 3 s."""
        ended = asyncio.ensure_future(self.wait())
        hurried = asyncio.ensure_future(hurry.wait())
        try:
            self.send_signal(self.command.stop_signal)
            await asyncio.wait(
                {ended, hurried}, timeout=self.command.stop_grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended.done() and hurried.done():
                self.send_signal(self.command.hurry_signal)
                await asyncio.wait({ended}, timeout=_HURRIED_GRACE_S)
            if not ended.done():
                self._kill_group()
            return await ended
        finally:
            hurried.cancel()

    def send_signal(self, signal_number: signal.Signals) -> None:
        """Nothing happens if the process has ended."""
        if self._process.returncode is None:
            # Not Popen.send_signal: it would reap a process that just ended, before wait() could end
            # the rest of its group.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal_number)

    async def output_lines(self) -> AsyncIterator[str]:
        """Standard output line by line, for a child started with `reads_output`."""
        stream = self._process.stdout
        assert stream is not None, "started without reads_output"
        reader = asyncio.StreamReader(limit=1 << 20)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), stream
        )
        try:
            async for line in reader:
                yield line.decode("utf-8", errors="replace").rstrip("\r\n")
        finally:
            transport.close()

    def _kill_group(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)


def exit_text(exit_code: int) -> str:
    """How a process ended, for people: an exit code, or the name of the signal."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"


def _dies_with_parent(orphan_signal: signal.Signals) -> Callable[[], None]:
    parent = os.getpid()

    def before_exec() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(orphan_signal), 0, 0, 0)
        # The parent may have died before the request: then nothing would ever be sent.
        if os.getppid() != parent:
            os._exit(_NOT_STARTED)

    return before_exec


async def _ended(pid: int) -> None:
    """Wait until the process is a zombie, without reaping it."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # an older or a filtered kernel
        while not _is_zombie(pid):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _is_zombie(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
