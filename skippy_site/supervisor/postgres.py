"""Embedded Postgres: a cluster made once, and a server that runs as our foreground child.

The server listens on a Unix socket only, in a folder that nobody but its own user (and root) can
enter; that folder is the lock on the door, so connections are trusted. It is durable (fsync on)
unless a test says otherwise, and recovers by itself after a crash, however long that takes.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from skippy_site.state import StateFolder
from skippy_site.supervisor.postgres_home import PostgresHome, settle_postgres_home
from skippy_site.supervisor.postgres_location import DATABASE, PORT, ROLE, PostgresLocation
from skippy_site.supervisor.postgres_programs import PostgresPrograms, postgres_programs
from skippy_site.supervisor.probes import Readiness
from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.process import Command, exit_text
from skippy_site.supervisor.sockets import remove_short_folder
from skippy_site.supervisor.system_account import ACCOUNT_NAME

# Statements and details are kept out of the server's log: Django sends values inside of statements.
_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_STOP_GRACE_S = 60.0

RunToEnd = Callable[[Command], Awaitable[int]]


class EmbeddedPostgres:
    """One cluster of one state folder. `prepare()` first, then `command()` as often as it is started."""

    def __init__(
        self, state: StateFolder, *, is_durable: bool = True, account_name: str = ACCOUNT_NAME
    ) -> None:
        self._state = state
        self._is_durable = is_durable
        self._account_name = account_name
        self._home: PostgresHome | None = None
        self._programs: PostgresPrograms | None = None

    def __repr__(self) -> str:
        return f"EmbeddedPostgres({self._home or 'not prepared'})"

    @property
    def location(self) -> PostgresLocation:
        return self._settled().location

    @property
    def log_file(self) -> Path:
        return self._state.logs / "postgres.log"

    @property
    def has_cluster(self) -> bool:
        return (self.location.data / "PG_VERSION").exists()

    async def prepare(self, run: RunToEnd) -> None:
        """Settle place, user and programs; make the cluster if there is none. `run` runs initdb.

        Raises ServiceProblem, also where the cluster is of another major version: its files cannot
        be read by these programs.
        """
        self._home = settle_postgres_home(self._state, account_name=self._account_name)
        self._programs = postgres_programs(account=self._home.account, copy_to=self.location.programs)
        if not self.has_cluster:
            await self._make_cluster(run, self._programs)
        self._check_version(self._programs)

    def command(self) -> Command:
        """The server's command. Removes a pid file that would wrongly keep it from starting."""
        remove_foreign_pid_file(self.location.data)
        settings = {**_SETTINGS, **({} if self._is_durable else _NOT_DURABLE)}
        assert self._programs is not None, "prepare() comes first"
        return self._command(
            self._programs.path("postgres"),
            "-D", str(self.location.data),
            "-k", _quoted_folder(self.location.socket_folder),
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
        )  # fmt: skip

    async def probe(self) -> Readiness:
        """Whether the server takes connections; makes our database when it is missing."""
        import psycopg

        try:
            connection = await psycopg.AsyncConnection.connect(
                host=str(self.location.socket_folder),
                port=PORT,
                user=ROLE,
                dbname="postgres",
                connect_timeout=5,
                autocommit=True,
            )
            async with connection:
                found = await connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
                if await found.fetchone() is None:
                    await connection.execute(f'CREATE DATABASE "{DATABASE}"')
        except psycopg.Error as error:
            return Readiness(is_ready=False, detail=_reason(str(error)))
        return Readiness(is_ready=True)

    def clean_up(self) -> None:
        """After the server's end: no socket is left behind."""
        if self._home is None:
            return
        for name in (
            self.location.socket,
            self.location.socket.with_name(f"{self.location.socket.name}.lock"),
        ):
            name.unlink(missing_ok=True)
        remove_short_folder(self.location.socket_folder)

    def _settled(self) -> PostgresHome:
        assert self._home is not None, "prepare() comes first"
        return self._home

    async def _make_cluster(self, run: RunToEnd, programs: PostgresPrograms) -> None:
        # Made beside its place and moved there when it is whole: an interrupted initdb leaves files
        # that look like a cluster.
        draft = self.location.data.with_name("data.new")
        shutil.rmtree(draft, ignore_errors=True)
        if self.location.data.is_dir():
            raise ServiceProblem(
                f"{self.location.data} holds something that is no Postgres cluster: move it away"
            )
        exit_code = await run(
            self._command(
                programs.path("initdb"),
                "-D",
                str(draft),
                "-U",
                ROLE,
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--auth-local=trust",
                "--auth-host=reject",
                "--no-instructions",
                *(() if self._is_durable else ("--no-sync",)),
            )
        )
        if exit_code != 0:
            raise ServiceProblem(
                f"the database's files could not be made ({exit_text(exit_code)}): see {self.log_file}"
            )
        draft.rename(self.location.data)
        _sync_folder(self.location.base)

    def _check_version(self, programs: PostgresPrograms) -> None:
        made_by = (self.location.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if made_by != str(programs.major):
            raise ServiceProblem(
                f"the database in {self.location.data} was made by PostgreSQL {made_by}, and this version "
                f"brings PostgreSQL {programs.major}: make a backup with the old version (`manage.py "
                "backup`) and restore it into a new SKIPPY_HOME with this one, or set DATABASE_URL"
            )

    def _command(self, *argv: str) -> Command:
        return Command(
            argv=argv,
            environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            folder=Path("/"),
            log_file=self.log_file,
            account=self._settled().account,
            stop_signal=signal.SIGINT,  # fast: ends sessions, writes a checkpoint
            hurry_signal=signal.SIGQUIT,  # immediate: recovers at the next start
            orphan_signal=signal.SIGINT,
            stop_grace_s=_STOP_GRACE_S,
        )


def remove_foreign_pid_file(data: Path) -> None:
    """Remove postmaster.pid if the process that it names lives but is not this cluster's server.

    Postgres itself sees that a named process is gone, or belongs to another user. It cannot see
    that, after a reboot, the number was given to another program of the same user, and would never
    start again. Raises ServiceProblem if it is in truth a server on these files.
    """
    pid_file = data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text(encoding="ascii").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return
    process = Path("/proc") / str(pid)
    if not process.exists():
        return
    try:
        works_here = (process / "cwd").resolve() == data.resolve()
        is_postgres = "postgres" in (process / "comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # another user's process, or gone by now: Postgres judges it rightly
    if works_here and is_postgres:
        raise ServiceProblem(f"another Postgres (process {pid}) runs on {data}: stop it first")
    pid_file.unlink(missing_ok=True)


def _quoted_folder(folder: Path) -> str:
    # The option takes a list: a comma or a quote in the name would split it.
    return '"' + str(folder).replace('"', '""') + '"'


def _reason(text: str) -> str:
    """The part of libpq's message that a person wants to read while waiting."""
    last = text.strip().splitlines()[-1] if text.strip() else ""
    return last.rpartition("FATAL:")[2].strip() if "FATAL:" in last else ""


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
