"""Runs pip, compilers and probes so that their output is kept, watched, and ended with us.

Children run in groups of their own: a Ctrl-C reaches only this process, which then ends whole trees
(pip → ninja → gcc) instead of leaving them to each program's manners.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from skippy_site.provision.problem import Interrupted, ProvisionProblem

TAIL_LINES = 25
TAIL_LINE_CHARACTERS = 400
STOP_GRACE_S = 3.0


class ChildProcesses:
    """All children of one preparation; `stop` ends them and lets no new one begin."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str],
        what: str,
        advice: str,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Run to the end; every line goes to `log` (appended) and to `on_line`.

        Raises ProvisionProblem with the last lines and the log's place where the child fails, and
        Interrupted where `stop` ended it.
        """
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        with log.open("a", encoding="utf-8", errors="replace") as kept:
            kept.write(f"$ {' '.join(str(part) for part in command)}\n")
            kept.flush()
            child = self._start(command, environment)
            try:
                for line in child.stdout or ():
                    kept.write(line)
                    tail.append(line.rstrip()[:TAIL_LINE_CHARACTERS])
                    on_line(line.rstrip())
                code = child.wait()
            finally:
                self._forget(child)
        if self._is_stopped:
            raise Interrupted
        if code != 0:
            lines = "\n".join(f"    {line}" for line in tail if line)
            raise ProvisionProblem(
                f"{what} failed ({describe_exit(code)}). Its last lines:\n{lines}\nThe whole log: {log}",
                advice=advice,
            )

    def stop(self) -> None:
        """End every child and what they started."""
        with self._lock:
            self._is_stopped = True
            running = list(self._running)
        for child in running:
            _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE_S
        for child in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, deadline - time.monotonic()))
            _signal_group(child, signal.SIGKILL)

    def _start(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._is_stopped:
                raise Interrupted
            child = subprocess.Popen(
                [str(part) for part in command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._running.add(child)
            return child

    def _forget(self, child: subprocess.Popen[str]) -> None:
        if child.poll() is None:
            _signal_group(child, signal.SIGKILL)
            child.wait()
        if child.stdout is not None:
            child.stdout.close()
        with self._lock:
            self._running.discard(child)


def _signal_group(child: subprocess.Popen[str], number: signal.Signals) -> None:
    # After the leader's end its group may live on (a compiler): the group's number is still ours.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def describe_exit(code: int) -> str:
    """'exit status 2', or 'ended by SIGILL': Popen gives signals as negative codes."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


# Set by make for its own children; cmake's make would talk to a job server that is not there.
MAKE_VARIABLES = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKE_TERMOUT", "MAKE_TERMERR", "MAKEOVERRIDES")


def child_environment(source: Mapping[str, str] | None = None, **changes: str) -> dict[str, str]:
    """The caller's environment, less what would mislead pip and the build, with `changes`.

    The caller's choice of index, proxy and certificates stays. `PIP_USER` and the like would send
    packages out of the environment that they are for.
    """
    environment = dict(os.environ if source is None else source)
    for name in (*MAKE_VARIABLES, "PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"):
        environment.pop(name, None)
    environment.update(
        PIP_USER="0",
        PIP_NO_INPUT="1",
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_ROOT_USER_ACTION="ignore",
        PYTHONUNBUFFERED="1",
        PYTHONNOUSERSITE="1",
    )
    environment.update(changes)
    return environment


def pip_command(python: Path, verb: str, *arguments: str | Path) -> list[str | Path]:
    """A call of `python`'s own pip, as for a program that reads what it prints."""
    return [python, "-m", "pip", verb, "--progress-bar", "off", *arguments]
