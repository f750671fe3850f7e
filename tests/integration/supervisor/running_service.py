"""A supervisor in a process of its own, with what it prints and which processes it has."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from skippy_site.state import CHECKOUT, StateFolder
from skippy_site.supervisor.remains import lock_holders

READY = re.compile(r"Skippy is ready: ")
ROLES = ("server", "worker", "beat")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(is_true: Callable[[], object], *, limit_s: float, what: str) -> float:
    """Seconds until `is_true`; fails after the limit."""
    started_ts = time.monotonic()
    while not is_true():
        if time.monotonic() - started_ts > limit_s:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - started_ts


class RunningService:
    """`start()` it, look at it, kill parts of it; `close()` leaves nothing behind."""

    def __init__(
        self,
        home: Path,
        *,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        python: str = sys.executable,
        arguments: Sequence[str] = ("-m", "tests.integration.supervisor.fake_service"),
    ) -> None:
        self.state = StateFolder(home)
        self.port = port or free_port()
        self.lines: list[str] = []
        self._environment = {
            "PATH": os.environ["PATH"],
            "SKIPPY_HOME": str(home),
            "SKIPPY_PORT": str(self.port),
            "SKIPPY_DRAIN_GRACE_S": "8",
            **(environment or {}),
        }
        self._argv = [*prefix, python, *arguments]
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, *, limit_s: float = 40.0) -> RunningService:
        """Start it and wait for the ready line."""
        self.launch()
        wait_until(lambda: self.says(READY) or not self.is_alive, limit_s=limit_s, what="the ready line")
        assert self.says(READY), self.output
        return self

    def launch(self) -> RunningService:
        """Start it without waiting."""
        self.lines = []
        self._process = subprocess.Popen(
            self._argv,
            cwd=CHECKOUT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            self.lines.extend(iter(process.stdout.readline, ""))

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def says(self, pattern: str | re.Pattern[str]) -> bool:
        return re.search(pattern, self.output) is not None

    def wait_for_line(self, pattern: str, *, limit_s: float = 20.0) -> None:
        wait_until(lambda: self.says(pattern), limit_s=limit_s, what=f"{pattern!r} in {self.output}")

    def wait_for_exit(self, *, limit_s: float = 30.0) -> int:
        code = self.process.wait(limit_s)
        if self._reader is not None:
            self._reader.join(5)
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, *, limit_s: float = 30.0) -> int:
        self.signal(signal.SIGTERM)
        return self.wait_for_exit(limit_s=limit_s)

    def pid_of(self, role: str) -> int:
        """The process of a role: postgres, valkey, server, worker or beat."""
        found = [pid for pid, command in self._children() if _plays(command, role)]
        assert len(found) == 1, f"{role}: {found}"
        return found[0]

    def has(self, role: str) -> bool:
        return any(_plays(command, role) for _, command in self._children())

    def kill(self, role: str) -> int:
        pid = self.pid_of(role)
        os.kill(pid, signal.SIGKILL)
        return pid

    def wait_for_broker_use(self) -> None:
        """Until the stand-in for the worker has reached the broker."""
        marker = self.state.root / "worker-reached-broker"
        wait_until(marker.exists, limit_s=20, what="the worker at the broker")

    def processes(self) -> list[int]:
        """Every process that descends from a supervisor of this state folder, however deep."""
        return [holder.pid for holder in lock_holders(self.state.run / "children.lock")]

    def close(self) -> None:
        """At the end of a test, whatever came of it."""
        if self._process is None:
            return
        if self.is_alive:
            self.signal(signal.SIGKILL)
        self.wait_for_exit()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _children(self) -> Iterator[tuple[int, list[str]]]:
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                command = (process / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if int(parent) == self.process.pid:
                yield int(process.name), command


def _plays(command: list[str], role: str) -> bool:
    if role == "postgres":
        return command[0].endswith("/postgres")
    if role == "valkey":
        return "valkey-server" in command[0]
    return role in command or (role == "server" and "skippy_site.servers" in command)
